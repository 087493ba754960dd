import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { NOTIFICATION_TYPES, type NotificationType } from '../../../../src/config/schema-network.ts';
import { webhookContent, type WebhookMessage } from '../../../../src/daemon/hooks/webhook-formats.ts';
import { RECEIVERS } from '../../../support/receivers.ts';

const PEOPLES_FORMATS = ['slack', 'ntfy', 'apprise'] as const;

function message(type: NotificationType, fields: WebhookMessage['fields'], host = 'mirror1'): WebhookMessage {
  return { id: 'msg_1', at: '2026-03-02T08:15:04.120Z', host, type, fields };
}

/** The title and the text of a notification: the same in every format. */
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

describe('a message for people', () => {
  it.each([
    [
      'target.published',
      { target: 'A/main', files: 9, added: 1, changed: 2, removed: 3 },
      'target published (mirror1): A/main\nfiles: 9\nadded: 1\nchanged: 2\nremoved: 3',
    ],
    [
      'target.failed',
      { target: 'A/main', state: 'quarantined', ...FAILURE, triedAgain: false },
      'target failed (mirror1): A/main\nThe archive ends too early.\nWhat is published stays.\nstate: quarantined',
    ],
    [
      'mirror.stale',
      { count: 1, first: [{ target: 'A/main', reason: 'stale', verifiedAt: null }] },
      'mirror stale (mirror1): count: 1\nfirst: [{"target":"A/main","reason":"stale","verifiedAt":null}]',
    ],
    ['pass.recovered', {}, 'pass recovered (mirror1): pass recovered (mirror1)'],
  ] as const)('has the known facts of %s', (type, fields, expected) => {
    expect(shown(message(type, fields))).toBe(expected);
  });

  it('is more severe if nothing is retried', () => {
    const ntfy = (triedAgain: boolean): unknown => {
      const sent = message('pass.failed', { ...FAILURE, triedAgain });
      return RECEIVERS.ntfy(webhookContent('ntfy', sent, (text) => text));
    };
    expect(ntfy(false)).toMatchObject({ weight: 4, tags: ['rotating_light'] });
    expect(ntfy(true)).toMatchObject({ weight: 3, tags: ['warning'] });
  });

  it('is accepted by every receiver, with any names', () => {
    const text = fc.string({ unit: 'binary', maxLength: 1500, size: 'max' });
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

  it('has no half characters, which some receivers refuse', () => {
    for (const target of ['a\uD83D', `${'x'.repeat(1299)}😀`]) {
      const sent = message('target.moved', { target, from: 'b' });
      for (const format of PEOPLES_FORMATS) {
        const { body } = webhookContent(format, sent, (whole) => whole);
        expect(body).not.toMatch(/\\ud[89a-f]|\p{Surrogate}/iu);
      }
    }
  });

  it('holds no secret, not even in the spelling of a receiver', () => {
    const scrub = (text: string): string => text.replaceAll('s<3&cret', '[secret]');
    const sent = message('pass.failed', { message: 'the key s<3&cret is refused', hint: null }, 's<3&cret');
    for (const format of [...PEOPLES_FORMATS, 'json'] as const) {
      const { headers, body } = webhookContent(format, sent, scrub);
      expect(JSON.stringify([headers, body])).not.toMatch(/cret (?:is|\))/);
      expect(body).toContain('[secret]');
    }
  });
});
