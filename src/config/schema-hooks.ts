import { isWebhookFilter } from './notification-types.ts';
import { choice, command, duration, list, secretAddress, secretFile, secretKey } from './kinds.ts';
import { section, setting } from './metadata.ts';

const ARGUMENTS =
  'A list: the program and its arguments. No shell reads it. In a variable or a flag it is a JSON list, or one word.';

const MASKED = 'The address is a secret: anyone who has it can often use it.';

export const hooksSection = section('What is run or told when something happens.', {
  afterPublish: setting(command().optional(), {
    description: 'command that runs after a target was published, moved or retired',
    comment: ARGUMENTS,
    example: ['/usr/local/bin/after-publish'],
  }),
  beforePublish: setting(command().optional(), {
    description: 'command that checks every new state of a target before it is published, and may refuse it',
    comment: ARGUMENTS,
    example: ['/usr/local/bin/before-publish'],
  }),
  timeout: setting(duration({ min: '100ms' }).prefault('5m'), {
    description: 'time limit of a command',
  }),
  webhook: setting(secretAddress().optional(), {
    description: 'address that receives notifications as POST requests',
    comment: `${MASKED} Or webhookFile, a variable, or a credential, as for service.apiKey.`,
    example: 'https://alerts.example.com/workbooks',
  }),
  webhookFile: secretFile('hooks.webhook'),
  webhookSecret: setting(secretKey().optional(), {
    description: 'key that signs the requests to `hooks.webhook`: `whsec_` and 24 to 64 bytes in base64',
    comment: 'Without whsec_ it is taken as base64, too. `openssl rand -base64 32` makes one.',
    example: 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
  }),
  webhookSecretFile: secretFile('hooks.webhookSecret'),
  webhookEvents: setting(list({ min: 1, check: eventProblem }).prefault(['*']), {
    description: 'notifications to send: types, groups such as `target.*`, or `*` for all',
  }),
  webhookFormat: setting(choice(['json', 'slack', 'ntfy', 'apprise']).prefault('json'), {
    description: '`json` for programs, or a message for people as `slack`, `ntfy` and `apprise` take it',
  }),
  heartbeat: setting(secretAddress().optional(), {
    description: 'address to request (GET) after every pass that leaves the whole mirror fresh',
    comment: `${MASKED} Or heartbeatFile. For services that raise an alarm when requests stop.`,
    example: 'https://heartbeats.example.com/any-long-random-text',
  }),
  heartbeatFile: secretFile('hooks.heartbeat'),
});

function eventProblem(entry: string): string | undefined {
  if (isWebhookFilter(entry)) return undefined;
  return 'expected a type of notification such as target.failed, a group such as target.*, or *';
}
