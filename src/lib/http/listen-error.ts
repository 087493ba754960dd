import { MirrorError } from '../errors/errors.ts';

/** The setting that says where something listens. */
export interface ListenSetting {
  readonly name: string;
  /** A value that works. */
  readonly example: string;
  /** Whether it may be `off`. */
  readonly canBeOff: boolean;
}

/** By the code of the system's error (listen(2), bind(2), getaddrinfo(3)). NAME is the setting, EXAMPLE a value that works. */
const REASONS: Readonly<Record<string, readonly [problem: string, advice: string, more?: string]>> = {
  EADDRINUSE: [
    'another program listens there already',
    'Choose another port for NAME',
    ', or end the other program: `ss -ltnp` names it',
  ],
  EACCES: [
    'this user may not listen there',
    'Choose a port from 1024 on for NAME',
    '; lower ones need a privilege (CAP_NET_BIND_SERVICE)',
  ],
  EADDRNOTAVAIL: [
    'this machine has no such address',
    'Give NAME an address of this machine, such as EXAMPLE',
  ],
  ENOTFOUND: [
    'this host name has no address',
    'Give NAME a host name that this machine knows, or an address',
  ],
  EAI_AGAIN: ['the host name cannot be resolved now', 'Give NAME an address instead of a name'],
  EAFNOSUPPORT: ['this machine has no IPv6', 'Give NAME an IPv4 address, such as EXAMPLE'],
};

/** Says why nothing can be served at an address: `http.unusable`. */
export function listenError(
  error: Error,
  { host, port }: { readonly host: string; readonly port: number },
  { name, example, canBeOff }: ListenSetting,
): MirrorError {
  const code = 'code' in error ? String(error.code) : '';
  const [problem, advice, more = ''] = REASONS[code] ?? [error.message, 'Choose another address for NAME'];
  const hint = advice.replace('NAME', name).replace('EXAMPLE', example) + (canBeOff ? ', or off' : '');
  return new MirrorError('http.unusable', `Cannot listen on ${host}, port ${port} (${name}): ${problem}.`, {
    cause: error,
    hint: `${hint}${more}.`,
  });
}
