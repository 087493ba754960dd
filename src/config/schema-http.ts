import { listenOrOff, path, secret } from './kinds.ts';
import { section, setting } from './leaf.ts';

export const httpSection = section('Status page, health and metrics of the daemon.', {
  listen: setting(listenOrOff().prefault('127.0.0.1:9480'), {
    description:
      'where `run` serves the status page, `/metrics`, `/healthz`, `/readyz` and `/api/status`: `host:port`, or `off`',
    comment: 'Whoever reaches it can read names, times and errors of targets; give a token beyond loopback.',
    needsRestart: true,
  }),
  token: setting(secret().optional(), {
    description: 'token that the status page, `/metrics` and `/api/status` ask for; health needs none',
    comment: 'As a bearer token, or as the password of any user name. Better in a file: tokenFile.',
    example: 'any-long-random-text',
  }),
  tokenFile: setting(path().optional(), {
    description: 'path of a file that holds `http.token`',
    fileOf: 'token',
  }),
});
