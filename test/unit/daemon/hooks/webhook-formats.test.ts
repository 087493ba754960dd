import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { NOTIFICATION_TYPES, type NotificationType } from '../../../../src/config/schema-network.ts';
import { webhookContent, type WebhookMessage } from '../../../../src/daemon/hooks/webhook-formats.ts';
import { RECEIVERS } from '../../../support/receivers.ts';

const PEOPLES_FORMATS = ['slack', 'ntfy', 'apprise'] as const;

function message(type: NotificationType, fields: WebhookMessage['fields'], host = 'mirror1'): WebhookMessage {
  return { id: 'msg_1', at: '2026-03-02T08:15:04.120Z', host, type, fields };
}

/** What people see of a notification: the same in every format. */
function shown(sent: WebhookMessage): string {
  const receptions = PEOPLES_FORMATS.map((format) =>
    RECEIVERS[format](webhookContent(format, sent, (text) => text)),
  );
  for (const { status, error } of receptions)
    expect({ status, error }).toEqual({ status: 200, error: undefined });
  const texts = new Set(receptions.map(({ title, text }) => `${title}: ${text}`));
  expect(texts.size).toBe(1);
  return [...texts].join('');
}

const FAILURE = { code: 'c', message: 'The archive ends too early.', hint: 'What is published stays.' };

describe('what people are told', () => {
  it.each([
    [
      'target.published',
      { target: 'A/main', files: 9, added: 1, changed: 2, removed: 3 },
      'Files changed (mirror1): A/main: 1 file added, 2 changed, 3 removed',
    ],
    [
      'target.moved',
      { target: 'B/main', from: 'A/main' },
      'A repository was renamed (mirror1): B/main: it was A/main before',
    ],
    [
      'target.retired',
      { target: 'A/main', reason: 'gone' },
      'A target went to the history (mirror1): A/main: its tree went to history/ (gone)',
    ],
    [
      'target.failed',
      { target: 'A/main', state: 'quarantined', ...FAILURE, triedAgain: false },
      'A target fails (mirror1): A/main: quarantined. The archive ends too early. What is published stays.',
    ],
    [
      'target.held',
      { target: 'A/main', state: 'held', message: 'it would lose 8 of its 10 files' },
      'A deletion waits for approval (mirror1): A/main: it would lose 8 of its 10 files. workbook-mirror approve lists what would go, and asks.',
    ],
    [
      'target.drifted',
      { target: 'A/main', state: 'drifted', message: '1 modified, the first is "plan.xlsx"' },
      'A published tree was changed (mirror1): A/main: drifted. 1 modified, the first is "plan.xlsx"',
    ],
    ['target.recovered', { target: 'A/main' }, 'A target is well again (mirror1): A/main'],
    [
      'mirror.stale',
      { count: 1, first: [{ target: 'A/main', reason: 'stale', verifiedAt: null }] },
      'The mirror is not fresh (mirror1): not verified in time, or not whole: 1 target, A/main (stale)',
    ],
    [
      'mirror.stale',
      { count: 0, first: [] },
      'The mirror is not fresh (mirror1): the settings select nothing of what the service lists',
    ],
    ['mirror.fresh', {}, 'The mirror is fresh again (mirror1): The mirror is fresh again.'],
    [
      'pass.failed',
      { code: 'c', message: 'The service does not answer.', hint: null, triedAgain: true },
      'Passes fail (mirror1): The service does not answer.',
    ],
    ['pass.recovered', {}, 'Passes succeed again (mirror1): Passes succeed again.'],
    [
      'pass.stuck',
      { silentSeconds: 900 },
      'A pass is stuck (mirror1): It has made no progress for 900 seconds.',
    ],
    ['credentials.refused', { credential: 'apiKey' }, 'The service refuses a key (mirror1): service.apiKey'],
    [
      'credentials.accepted',
      { credential: 'apiKey', key: 2 },
      'The service accepts the key again (mirror1): service.apiKey',
    ],
    [
      'settings.refused',
      { code: 'c', message: 'schedule is no schedule.', hint: 'Mend it.', triedAgain: false },
      'Changed settings were refused (mirror1): schedule is no schedule. Mend it.',
    ],
    [
      'settings.accepted',
      { changed: ['schedule', 'hooks.timeout'] },
      'Changed settings are in force (mirror1): schedule, hooks.timeout',
    ],
    [
      'hook.failed',
      { hook: 'afterPublish', target: 'A/main', code: 'c', message: 'It ended with 1.', hint: null },
      'A hook fails (mirror1): A/main: It ended with 1.',
    ],
    ['hook.recovered', { hook: 'afterPublish', target: 'A/main' }, 'A hook succeeds again (mirror1): A/main'],
  ] as const)('%s', (type, fields, expected) => {
    expect(shown(message(type, fields))).toBe(expected);
  });

  it('weighs more where nothing is tried again', () => {
    const ntfy = (triedAgain: boolean): unknown =>
      RECEIVERS.ntfy(
        webhookContent('ntfy', message('pass.failed', { ...FAILURE, triedAgain }), (text) => text),
      );
    expect(ntfy(false)).toMatchObject({ weight: 4, tags: ['rotating_light'] });
    expect(ntfy(true)).toMatchObject({ weight: 3, tags: ['warning'] });
  });

  it('is taken by every receiver, whatever the names are', () => {
    const text = fc.string({ unit: 'binary', maxLength: 3000 });
    const fields = fc.record(
      { target: text, message: text, hint: text, state: text, from: text, reason: text },
      { requiredKeys: [] },
    );
    const sent = fc.record({ type: fc.constantFrom(...NOTIFICATION_TYPES), fields, host: text });
    fc.assert(
      fc.property(sent, ({ type, fields: said, host }) => {
        for (const format of PEOPLES_FORMATS) {
          const content = webhookContent(format, message(type, said, host.slice(0, 64)), (whole) => whole);
          expect(() => new Headers(content.headers)).not.toThrow();
          expect(RECEIVERS[format](content)).toMatchObject({ status: 200 });
        }
      }),
    );
  });

  it('holds no secret, also where a receiver has it spelled in another way', () => {
    const scrub = (text: string): string => text.replaceAll('s<3&cret', '[secret]');
    const sent = message('pass.failed', { message: 'the key s<3&cret is refused', hint: null }, 's<3&cret');
    for (const format of [...PEOPLES_FORMATS, 'json'] as const) {
      const { headers, body } = webhookContent(format, sent, scrub);
      expect(JSON.stringify([headers, body])).not.toMatch(/cret (?:is|\))/);
      expect(body).toContain('[secret]');
    }
  });
});
