import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { acceptsGzip, matchesTag, sendReply } from '../../../../src/lib/http/reply.ts';

describe('packing', () => {
  it.each(['gzip', 'GZIP', 'br, gzip;q=0.5', 'gzip ; q=1, br'])('is accepted by %s', (header) => {
    expect(acceptsGzip(header)).toBe(true);
  });

  it.each([undefined, '', 'identity', 'gzip;q=0', 'gzip; q=0.000', '*, gzip;q=0', 'gzipped', 'gzip;q=x'])(
    'is not accepted by %s',
    (header) => expect(acceptsGzip(header)).toBe(false),
  );
});

it('an entity tag matches as If-None-Match says', () => {
  const tag = '"a"';
  expect(matchesTag(undefined, tag)).toBe(false);
  expect(matchesTag('"x"', tag)).toBe(false);
  expect(matchesTag(`"x", W/${tag}`, tag)).toBe(true);
  expect(matchesTag('*', tag)).toBe(true);
  expect(matchesTag('"x", "a"', `W/${tag}`)).toBe(true);
});

it('an answer that breaks off on this side is an error, after it was cut', async () => {
  let failure: unknown = null;
  async function* broken() {
    yield await Promise.resolve(Buffer.from('a'));
    throw new Error('bad object');
  }
  const server = createServer((request, response) => {
    const body = { contentType: 'text/plain', open: broken };
    sendReply(request, response, { status: 200, headers: {}, body }).catch((error: unknown) => {
      failure = error;
    });
  }).listen(0);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const text = fetch(`http://127.0.0.1:${port}`).then((answer) => answer.text());
  await expect(text).rejects.toThrow('terminated');
  expect(failure).toMatchObject({ message: 'bad object' });
});
