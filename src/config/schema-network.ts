import { baseUrl, listen, secretAddress, secretKey } from './addresses.ts';
import { choice, command, duration, keys, list, orOff, path, secret, setting, size } from './kinds.ts';

/** The settings of everything at the other end of a connection: the service, HTTP clients, receivers of hooks, clients of the embedded service. */

export const serviceSettings = {
  'service.baseUrl': setting(baseUrl, {
    description: 'application address + `/api`',
    example: 'https://workbooks.example.com/api',
    need: 'service',
  }),
  'service.apiKey': setting(keys, {
    description: 'personal API key, current API; several, one per line, are tried in order',
    comment:
      'Better keep it in a file: apiKeyFile. Or use the variable WORKBOOK_MIRROR_SERVICE_API_KEY, or a systemd' +
      ' credential named service-api-key.',
    example: 'your-personal-api-key',
    need: 'service',
  }),
  'service.apiToken': setting(keys, {
    description:
      'personal API token, v1; without it, or if v1 answers 404, changes are found by comparing contents',
    comment: 'Several, apiTokenFile, a variable or a credential: as for apiKey.',
    example: 'your-personal-api-token',
  }),
  // Some limits are ten times as long, and must still fit a timer.
  'service.timeout': setting(duration('1ms', '1d'), {
    description: 'timeout until a response starts, and for silence within it',
    default: '2m',
  }),
  'service.maxBandwidth': setting(orOff(size), {
    description: 'total download limit in bytes per second, such as `10 MB`',
    default: 'off',
  }),
};

/** Why a text cannot be a host name in `http.allowedHosts`; undefined if it can. */
function hostProblem(text: string): string | undefined {
  return /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/i.test(text)
    ? undefined
    : 'expected a name without a port, such as mirror, mirror.example.com or *.example.com';
}

export const httpSettings = {
  'http.listen': setting(orOff(listen), {
    description: 'where `run` serves the status page, metrics and health checks: `host:port`, or `off`',
    comment:
      'Without a token, anyone who reaches it can read names, times and errors of targets: set one beyond loopback.',
    default: '127.0.0.1:9480',
    needsRestart: true,
  }),
  'http.token': setting(secret, {
    description: 'token for everything except health checks',
    comment: 'As a bearer token, or as the password of any user name. Better in a file: tokenFile.',
    example: 'any-long-random-text',
  }),
  'http.pollToken': setting(secret, {
    description: 'token that allows only `POST /api/poll` (ask for a pass)',
    comment: 'For a webhook or a CI job. Better in a file: pollTokenFile.',
    example: 'another-long-random-text',
  }),
  'http.allowedHosts': setting(list(0, hostProblem), {
    description:
      'further host names that are answered without a token; `*.example.com` covers all names below',
    comment: "Protects against web sites that read the page through a visitor's browser (DNS rebinding).",
    default: [],
  }),
};

/** All types of notifications to a webhook: part of the contract with its receiver. */
export const NOTIFICATION_TYPES = [
  'target.published',
  'target.moved',
  'target.retired',
  'target.failed',
  'target.held',
  'target.drifted',
  'target.recovered',
  'mirror.stale',
  'mirror.fresh',
  'pass.failed',
  'pass.recovered',
  'pass.stuck',
  'credentials.refused',
  'credentials.accepted',
  'settings.refused',
  'settings.accepted',
  'hook.failed',
  'hook.recovered',
] as const;

/** One of {@link NOTIFICATION_TYPES}. */
export type NotificationType = (typeof NOTIFICATION_TYPES)[number];

/** Whether one of these filters lets a type through: the type, its group such as `target.*`, or `*`. */
export function isChosen(type: NotificationType, filters: readonly string[]): boolean {
  const group = `${type.slice(0, type.indexOf('.'))}.*`;
  return filters.some((filter) => filter === '*' || filter === type || filter === group);
}

const ARGUMENTS =
  'A list: the program and its arguments. No shell reads it. In a variable or a flag it is a JSON list, or one word.';

const MASKED = 'The address is a secret.';

function eventProblem(entry: string): string | undefined {
  if (NOTIFICATION_TYPES.some((type) => isChosen(type, [entry]))) return undefined;
  return 'expected a type of notification such as target.failed, a group such as target.*, or *';
}

export const hooksSettings = {
  'hooks.afterPublish': setting(command, {
    description: 'command that runs after a target was published, moved or retired',
    comment: ARGUMENTS,
    example: ['/usr/local/bin/after-publish'],
  }),
  'hooks.beforePublish': setting(command, {
    description: 'command that may refuse a new state of a target before it is published',
    comment: ARGUMENTS,
    example: ['/usr/local/bin/before-publish'],
  }),
  'hooks.timeout': setting(duration('100ms'), { description: 'time limit of a command', default: '5m' }),
  'hooks.webhook': setting(secretAddress, {
    description: 'address that receives notifications as POST requests',
    comment: `${MASKED} Or webhookFile, a variable, or a credential, as for service.apiKey.`,
    example: 'https://alerts.example.com/workbooks',
  }),
  'hooks.webhookSecret': setting(secretKey, {
    description: 'key that signs the requests to `hooks.webhook`: `whsec_` and 24 to 64 bytes in base64',
    comment: 'Without whsec_ it is taken as base64, too. `openssl rand -base64 32` makes one.',
    example: 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
  }),
  'hooks.webhookEvents': setting(list(1, eventProblem), {
    description: 'notifications to send: types, groups such as `target.*`, or `*` for all',
    default: ['*'],
  }),
  'hooks.webhookFormat': setting(choice(['json', 'slack', 'ntfy', 'apprise']), {
    description: '`json` for programs, or a message for people: `slack`, `ntfy`, `apprise`',
    default: 'json',
  }),
  'hooks.heartbeat': setting(secretAddress, {
    description: 'address to request (GET) after every pass with a fresh mirror',
    comment: `${MASKED} Or heartbeatFile. For services that raise an alarm when requests stop.`,
    example: 'https://heartbeats.example.com/any-long-random-text',
  }),
};

export const serveSettings = {
  'serve.listen': setting(listen, {
    description: 'where the embedded service listens: `host:port`',
    default: '127.0.0.1:9400',
  }),
  'serve.directory': setting(path, {
    description: 'folder of the embedded service',
    example: '/var/lib/workbook-service',
  }),
  'serve.apiKey': setting(secret, {
    description: 'API key of the embedded service, current API',
    comment: 'Or apiKeyFile, a variable, or a credential, as for service.apiKey.',
    example: 'any-api-key',
  }),
  'serve.apiToken': setting(secret, {
    description: 'API token of the embedded service, v1',
    comment: 'Or apiTokenFile, a variable, or a credential, as for service.apiKey.',
    example: 'any-api-token',
  }),
  'serve.fetchInterval': setting(duration('1s', '366d'), {
    description: 'how often the embedded service updates its clones',
    comment: 'A push that the webhook reports is fetched at once.',
    default: '5m',
  }),
  'serve.sources': setting(choice(['https', 'any']), {
    description:
      'addresses that repositories may have: `https`, or for trials `any`, which adds `http:`, `file:` and local paths',
    comment: 'With any, everyone with a key can read every repository that the service can read.',
    default: 'https',
  }),
};
