import { list, listenOrOff, secret, secretFile } from './kinds.ts';
import { section, setting } from './metadata.ts';

/** Why a text cannot be a name of the host of `http.allowedHosts`; undefined if it can. */
function hostProblem(text: string): string | undefined {
  return /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/i.test(text)
    ? undefined
    : 'expected a name without a port, such as mirror, mirror.example.com or *.example.com';
}

export const httpSection = section('Status page, health and metrics of the daemon.', {
  listen: setting(listenOrOff().prefault('127.0.0.1:9480'), {
    description:
      'where `run` serves the status page, `/metrics`, `/healthz`, `/readyz` and `/api/status`: `host:port`, or `off`',
    comment: 'Whoever reaches it can read names, times and errors of targets; give a token beyond loopback.',
    needsRestart: true,
  }),
  token: setting(secret().optional(), {
    description: 'token for the status page, `/metrics` and `/api/status`; health checks need none',
    comment: 'As a bearer token, or as the password of any user name. Better in a file: tokenFile.',
    example: 'any-long-random-text',
  }),
  tokenFile: secretFile('http.token'),
  pollToken: setting(secret().optional(), {
    description:
      'token that allows `POST /api/poll` (ask for a pass) and nothing else; without it the endpoint is disabled',
    comment: 'For a webhook or a CI job. Better in a file: pollTokenFile.',
    example: 'another-long-random-text',
  }),
  pollTokenFile: secretFile('http.pollToken'),
  allowedHosts: setting(list({ min: 0, check: hostProblem }).prefault([]), {
    description:
      'host names that are answered without a token, besides addresses, `localhost` and the host of `http.listen`; `*.example.com` covers all names below',
    comment: 'Any other name may be that of a web site, which could read along.',
  }),
});
