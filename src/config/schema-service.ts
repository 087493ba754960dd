import { baseUrl, choice, duration, keys, listen, path, secret, secretFile, sizeOrOff } from './kinds.ts';
import { section, setting } from './metadata.ts';

/** The settings of the two ends of the API: the service that is mirrored, and the embedded service. */

/** How long a request may wait. Some limits are ten times as long, which must still be a time that a timer can wait for. */
const requestTimeout = () => duration({ min: '1ms', max: '1d' });

const ROTATION = 'The file is read again when it changes, so that a key can be rotated without a restart.';

export const serviceSection = section('The service that is mirrored.', {
  baseUrl: setting(baseUrl().optional(), {
    description: 'application address + `/api`',
    example: 'https://workbooks.example.com/api',
    need: 'service',
  }),
  apiKey: setting(keys().optional(), {
    description: 'personal API key, current API; several, one per line, are tried in order',
    comment:
      'Better not in this file: give apiKeyFile (the path of a file that holds the key) in its place, or the variable' +
      ' WORKBOOK_MIRROR_SERVICE_API_KEY, or a systemd credential named service-api-key.',
    example: 'your-personal-api-key',
    need: 'service',
  }),
  apiKeyFile: secretFile('service.apiKey', ROTATION),
  apiToken: setting(keys().optional(), {
    description:
      'personal API token, v1; without it, or if v1 answers 404, changes are found by comparing contents',
    comment: 'Several, or apiTokenFile, a variable, or a credential, as for apiKey.',
    example: 'your-personal-api-token',
  }),
  apiTokenFile: secretFile('service.apiToken', ROTATION),
  timeout: setting(requestTimeout().prefault('2m'), {
    description: 'timeout until a response starts, and for silence within it',
  }),
  maxBandwidth: setting(sizeOrOff({ min: '1kB' }).prefault('off'), {
    description: 'total download limit in bytes per second, such as `10 MB`',
  }),
});

export const serveSection = section('The embedded service, for `serve` and `demo`.', {
  listen: setting(listen().prefault('127.0.0.1:9400'), {
    description: 'where the embedded service listens, `host:port`, an IPv6 address in brackets',
  }),
  directory: setting(path().optional(), {
    description: 'where the embedded service keeps its repositories',
    example: '/var/lib/workbook-service',
  }),
  apiKey: setting(secret().optional(), {
    description: 'API key that the embedded service asks for, current API',
    comment: 'Or apiKeyFile, a variable, or a credential, as for service.apiKey.',
    example: 'any-api-key',
  }),
  apiKeyFile: secretFile('serve.apiKey'),
  apiToken: setting(secret().optional(), {
    description: 'API token that the embedded service asks for, v1',
    comment: 'Or apiTokenFile, a variable, or a credential, as for service.apiKey.',
    example: 'any-api-token',
  }),
  apiTokenFile: secretFile('serve.apiToken'),
  fetchInterval: setting(duration({ min: '1s', max: '366d' }).prefault('5m'), {
    description: 'how often the embedded service compares its clones with their origins',
    comment: 'A push that the webhook reports is fetched at once.',
  }),
  sources: setting(choice(['https', 'any']).prefault('https'), {
    description:
      'addresses that repositories may have: `https`, or for trials `any`, which adds `http:`, `file:` and local paths',
    comment: 'With any, everyone with a key can read every repository that the service can read.',
  }),
});
