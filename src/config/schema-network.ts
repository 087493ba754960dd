import { baseUrl, listen, secretAddress, secretKey } from './addresses.ts';
import { choice, command, duration, keys, list, orOff, path, secret, setting, size } from './kinds.ts';

/** The settings of everything at the other end of a connection: the service, HTTP clients, receivers of hooks, clients of the embedded service. */

export const serviceSettings = {
  'service.baseUrl': setting(baseUrl, {
    description: 'application address + `/api`',
    need: 'service',
  }),
  'service.apiKey': setting(keys, {
    description: 'personal API key, current API; several, one per line, are tried in order',
    need: 'service',
  }),
  'service.apiToken': setting(keys, {
    description:
      'personal API token, v1; without it, or if v1 answers 404, changes are found by comparing contents',
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
    default: '127.0.0.1:9480',
    needsRestart: true,
  }),
  'http.token': setting(secret, {
    description: 'token for everything except health checks',
  }),
  'http.pollToken': setting(secret, {
    description: 'token that allows only `POST /api/poll` (ask for a pass)',
  }),
  'http.allowedHosts': setting(list(0, hostProblem), {
    description:
      'further host names that are answered without a token; `*.example.com` covers all names below',
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

function eventProblem(entry: string): string | undefined {
  if (NOTIFICATION_TYPES.some((type) => isChosen(type, [entry]))) return undefined;
  return 'expected a type of notification such as target.failed, a group such as target.*, or *';
}

export const hooksSettings = {
  'hooks.afterPublish': setting(command, {
    description: 'command that runs after a target was published, moved or retired',
  }),
  'hooks.beforePublish': setting(command, {
    description: 'command that may refuse a new state of a target before it is published',
  }),
  'hooks.timeout': setting(duration('100ms'), { description: 'time limit of a command', default: '5m' }),
  'hooks.webhook': setting(secretAddress, {
    description: 'address that receives notifications as POST requests',
  }),
  'hooks.webhookSecret': setting(secretKey, {
    description: 'key that signs the requests to `hooks.webhook`: `whsec_` and 24 to 64 bytes in base64',
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
  }),
};

export const serveSettings = {
  'serve.listen': setting(listen, {
    description: 'where the embedded service listens: `host:port`',
    default: '127.0.0.1:9400',
  }),
  'serve.directory': setting(path, {
    description: 'folder of the embedded service',
  }),
  'serve.apiKey': setting(secret, {
    description: 'API key of the embedded service, current API',
  }),
  'serve.apiToken': setting(secret, {
    description: 'API token of the embedded service, v1',
  }),
  'serve.fetchInterval': setting(duration('1s', '366d'), {
    description: 'how often the embedded service updates its clones',
    default: '5m',
  }),
  'serve.sources': setting(choice(['https', 'any']), {
    description:
      'addresses that repositories may have: `https`, or for trials `any`, which adds `http:`, `file:` and local paths',
    default: 'https',
  }),
};
