import { MirrorError } from '../model/errors.ts';

/** What went wrong and what helps, by the code of the system's error (listen(2), bind(2), getaddrinfo(3)). */
const REASONS: ReadonlyMap<string, readonly [problem: string, hint: string]> = new Map([
  [
    'EADDRINUSE',
    [
      'another program listens there already',
      'Choose another port for http.listen, or off, or end the other program: `ss -ltnp` names it.',
    ],
  ],
  [
    'EACCES',
    [
      'this user may not listen there',
      'Choose a port from 1024 on for http.listen, or off; lower ones need a privilege (CAP_NET_BIND_SERVICE).',
    ],
  ],
  [
    'EADDRNOTAVAIL',
    [
      'this machine has no such address',
      'Give http.listen an address of this machine, such as 127.0.0.1:9480, or off.',
    ],
  ],
  [
    'ENOTFOUND',
    [
      'this host name has no address',
      'Give http.listen a host name that this machine knows, an address, or off.',
    ],
  ],
  [
    'EAI_AGAIN',
    ['the host name cannot be resolved now', 'Give http.listen an address instead of a name, or off.'],
  ],
  [
    'EAFNOSUPPORT',
    ['this machine has no IPv6', 'Give http.listen an IPv4 address, such as 127.0.0.1:9480, or off.'],
  ],
]);

/** Says why nothing can be served at an address: `http.unusable`. */
export function listenError(error: Error, host: string, port: number): MirrorError {
  const code = 'code' in error ? String(error.code) : '';
  const [problem, hint] = REASONS.get(code) ?? [
    error.message,
    'Choose another address for http.listen, or off.',
  ];
  return new MirrorError(
    'http.unusable',
    `Cannot listen on ${host}, port ${port} (http.listen): ${problem}.`,
    {
      cause: error,
      hint,
    },
  );
}
