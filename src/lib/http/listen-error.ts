import { MirrorError } from '../errors/errors.ts';

/** The setting that says where something listens. */
export interface ListenSetting {
  readonly name: string;
  /** A value that works. */
  readonly example: string;
  /** Whether it may be `off`. */
  readonly canBeOff: boolean;
}

type Reason = readonly [problem: string, hint: (setting: ListenSetting) => string];

/** What went wrong and what helps, by the code of the system's error (listen(2), bind(2), getaddrinfo(3)). */
const REASONS: ReadonlyMap<string, Reason> = new Map<string, Reason>([
  [
    'EADDRINUSE',
    [
      'another program listens there already',
      (setting) =>
        `Choose another port for ${setting.name}${orOff(setting)}, or end the other program: \`ss -ltnp\` names it.`,
    ],
  ],
  [
    'EACCES',
    [
      'this user may not listen there',
      (setting) =>
        `Choose a port from 1024 on for ${setting.name}${orOff(setting)}; lower ones need a privilege (CAP_NET_BIND_SERVICE).`,
    ],
  ],
  [
    'EADDRNOTAVAIL',
    [
      'this machine has no such address',
      (setting) =>
        `Give ${setting.name} an address of this machine, such as ${setting.example}${orOff(setting)}.`,
    ],
  ],
  [
    'ENOTFOUND',
    [
      'this host name has no address',
      (setting) =>
        `Give ${setting.name} a host name that this machine knows, or an address${orOff(setting)}.`,
    ],
  ],
  [
    'EAI_AGAIN',
    [
      'the host name cannot be resolved now',
      (setting) => `Give ${setting.name} an address instead of a name${orOff(setting)}.`,
    ],
  ],
  [
    'EAFNOSUPPORT',
    [
      'this machine has no IPv6',
      (setting) => `Give ${setting.name} an IPv4 address, such as ${setting.example}${orOff(setting)}.`,
    ],
  ],
]);

function orOff({ canBeOff }: ListenSetting): string {
  return canBeOff ? ', or off' : '';
}

/** Says why nothing can be served at an address: `http.unusable`. */
export function listenError(
  error: Error,
  { host, port }: { readonly host: string; readonly port: number },
  setting: ListenSetting,
): MirrorError {
  const code = 'code' in error ? String(error.code) : '';
  const [problem, hint] = REASONS.get(code) ?? [
    error.message,
    () => `Choose another address for ${setting.name}${orOff(setting)}.`,
  ];
  return new MirrorError(
    'http.unusable',
    `Cannot listen on ${host}, port ${port} (${setting.name}): ${problem}.`,
    { cause: error, hint: hint(setting) },
  );
}
