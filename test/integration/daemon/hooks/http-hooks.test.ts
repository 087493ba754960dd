import { hostname } from 'node:os';

import { describe, expect, it, onTestFinished } from 'vitest';

import { createPoster } from '../../../../src/daemon/hooks/post.ts';
import { createHttpHooks, type HttpHooks, signatureOf } from '../../../../src/daemon/hooks/http-hooks.ts';
import { inlineSecret } from '../../../../src/config/secret.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import type { Notification } from '../../../../src/daemon/hooks/notifications.ts';
import { startReceiver } from '../../../support/listen.ts';

const KEY = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const SIGNED = { webhookSecret: inlineSecret(KEY) };

function startPoster(timeoutMs = 10_000): ReturnType<typeof createPoster> {
  const poster = createPoster(timeoutMs);
  onTestFinished(() => poster.close());
  return poster;
}

/** The settings of a webhook that receives all events as JSON, without a signature. */
function hooksOf(address: string, more: Partial<HttpHooks> = {}): HttpHooks {
  return { webhook: inlineSecret(address), webhookEvents: ['*'], webhookFormat: 'json', ...more };
}

function start(hooks: () => HttpHooks) {
  const events: MirrorEvent[] = [];
  const scrub = (text: string): string => text.replaceAll('s3cret', '[secret]');
  const webhook = createHttpHooks(
    hooks,
    scrub,
    (event) => events.push(event),
    () => {},
  );
  onTestFinished(() => webhook.close(0));
  return { webhook, events };
}

function note(target: string): Notification {
  return { type: 'target.failed', fields: { target } };
}

describe('a webhook', () => {
  it('receives messages in order, with a signature over the body', async () => {
    const { origin, received } = await startReceiver(() => 204);
    const { webhook, events } = start(() => hooksOf(`${origin}/a/path?q=1`, SIGNED));
    webhook.tell([note('A/main'), note('B/main')]);
    webhook.tell([{ type: 'pass.failed', fields: { message: 'the key s3cret is refused' } }]);
    await expect.poll(() => received.length).toBe(3);
    expect(received.map(({ url }) => url)).toEqual(['/a/path?q=1', '/a/path?q=1', '/a/path?q=1']);
    const bodies = received.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    expect(bodies).toMatchObject([
      { type: 'target.failed', target: 'A/main', host: hostname() },
      { type: 'target.failed', target: 'B/main' },
      { type: 'pass.failed', message: 'the key [secret] is refused' },
    ]);
    for (const { headers, body, method } of received) {
      const id = String(headers['webhook-id']);
      const timestamp = Number(headers['webhook-timestamp']);
      expect(method).toBe('POST');
      expect(JSON.parse(body)).toMatchObject({ id });
      expect(headers['webhook-signature']).toBe(signatureOf(KEY, id, timestamp, body));
    }
    expect(events).toEqual([]);
  });

  it('receives only chosen events, and without a key no signature', async () => {
    const { origin, received } = await startReceiver(() => 200);
    const { webhook } = start(() => hooksOf(origin, { webhookEvents: ['pass.*'] }));
    webhook.tell([note('A/main'), { type: 'pass.failed', fields: {} }]);
    await expect.poll(() => received.length).toBe(1);
    expect(received[0]?.headers).not.toHaveProperty('webhook-signature');
    await webhook.close(1000);
    expect(received).toHaveLength(1);
  });

  it('that fails is retried with the same id, honouring Retry-After, and the rest waits', async () => {
    const { origin, received } = await startReceiver((count, response) => {
      if (count === 1) response.setHeader('retry-after', '1');
      return count === 1 ? 503 : 200;
    });
    const { webhook, events } = start(() => hooksOf(`${origin}/s3cret`));
    webhook.tell([note('A/main'), note('B/main')]);
    await expect.poll(() => events.length).toBe(1);
    expect(events).toMatchObject([
      { name: 'notification.failed', to: 'webhook', attempts: 1, code: 'notification.failed' },
    ]);
    expect(JSON.stringify(events)).toContain(origin);
    expect(JSON.stringify(events)).not.toContain('s3cret');
    await webhook.close(5000);
    const ids = received.map(({ headers }) => headers['webhook-id']);
    expect(ids).toHaveLength(3);
    expect(ids[0]).toBe(ids[1]);
    expect(received[2]?.body).toContain('B/main');
  });

  it('sends waiting messages in the current format, signed with the current key', async () => {
    const { origin, received } = await startReceiver((count) => (count === 1 ? 503 : 200));
    const own: Partial<HttpHooks> = { ...SIGNED };
    const { webhook, events } = start(() => hooksOf(origin, own));
    webhook.tell([note('A/main')]);
    await expect.poll(() => events.length).toBe(1);
    const other = KEY.replace('M', 'N');
    Object.assign(own, { webhookSecret: inlineSecret(other), webhookFormat: 'slack' });
    await webhook.close(5000);
    const { headers = {}, body = '' } = received[1] ?? {};
    expect(JSON.parse(body)).toMatchObject({ text: expect.any(String) as string });
    const [id, timestamp] = [String(headers['webhook-id']), Number(headers['webhook-timestamp'])];
    expect(headers['webhook-signature']).toBe(signatureOf(other, id, timestamp, body));
  });

  it('does not follow a redirect', async () => {
    const other = await startReceiver(() => 200);
    const { origin } = await startReceiver((_count, response) => {
      response.setHeader('location', other.origin);
      return 307;
    });
    const { webhook, events } = start(() => hooksOf(origin));
    webhook.tell([note('A/main')]);
    await expect.poll(() => events.length).toBe(1);
    expect(events).toMatchObject([{ hint: expect.stringContaining('Redirects are not followed') as string }]);
    expect(other.received).toEqual([]);
  });

  it('that hangs is abandoned at the end of the program, and waiting messages are bounded', async () => {
    const { origin, received } = await startReceiver(() => null);
    const { webhook, events } = start(() => hooksOf(origin));
    webhook.tell(Array.from({ length: 5000 }, (_, index) => note(`T${index}/main`)));
    await expect.poll(() => received.length).toBe(1);
    expect(received[0]?.body).toContain('T4000/main');
    await webhook.close(50);
    expect(events).toMatchObject([{ message: 'More than 1000 notifications wait: the oldest are dropped.' }]);
    expect(received).toHaveLength(1);
  });
});

describe('a request', () => {
  const never = new AbortController().signal;

  it('to a receiver that never answers fails after a time', async () => {
    const { origin } = await startReceiver(() => null);
    await expect(startPoster(200).send({ method: 'GET', address: origin }, never)).rejects.toMatchObject({
      code: 'notification.failed',
      message: expect.stringContaining('did not answer within') as string,
    });
  });

  it.each([
    'http://127.0.0.1:1/s3cret?s3cret',
    'http://user:s3cret@127.0.0.1:1/',
    'http://no-such-host.invalid/s3cret',
  ])('to %s fails, and only its origin is reported', async (address) => {
    const error: unknown = await startPoster()
      .send({ method: 'GET', address }, never)
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'notification.failed' });
    const { message, hint } = error as { message: string; hint: string };
    expect(`${message} ${hint}`).not.toContain('s3cret');
  });

  it('sends a user name and a password of the address as it should', async () => {
    const { origin, received } = await startReceiver(() => 200);
    const address = `${origin.replace('//', '//user:p%40ss@')}/x`;
    await startPoster().send({ method: 'GET', address }, never);
    const credentials = Buffer.from('user:p@ss').toString('base64');
    expect(received[0]?.headers.authorization).toBe(`Basic ${credentials}`);
  });
});

it('a heartbeat is one request at a time, and is retried after a failure', async () => {
  const { origin, received } = await startReceiver((count) => (count === 1 ? 500 : 200));
  const own = { heartbeat: inlineSecret(`${origin}/s3cret`), webhookEvents: [] };
  const { webhook: heartbeat, events } = start(() => ({ ...own, webhookFormat: 'json' }));
  for (let beats = 0; beats < 5; beats += 1) heartbeat.beat();
  await expect.poll(() => events.length).toBe(1);
  expect(JSON.stringify(events)).not.toContain('s3cret');
  await heartbeat.close(5000);
  heartbeat.beat();
  expect(received.map(({ method, url }) => `${method} ${url}`)).toEqual(['GET /s3cret', 'GET /s3cret']);
});
