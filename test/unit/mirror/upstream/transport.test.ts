import { describe, expect, it } from 'vitest';

import {
  extendPause,
  pauseLeftMs,
  type PauseMemory,
  RETRIES,
  retryDelayMs,
  Transport,
  waitOut,
} from '../../../../src/mirror/upstream/transport.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { HOUR_MS, NOW_MS } from '../../../support/builders.ts';

const URL_OF_LIST = new URL('https://service.example/api/repos');

it.each(['https://service.example', 'https://service.example/api'])(
  'the address %s gets no slash, as messages append a path to it',
  async (baseUrl) => {
    const options = { timeoutMs: 1000, connections: 1, pause: {}, keys: () => [], keyMemory: {} };
    const transport = new Transport({ ...options, baseUrl });
    expect(transport.address).toBe(baseUrl);
    await transport.close();
  },
);

describe('a request that failed', () => {
  const broken = new MirrorError('contents.interrupted', 'It broke off.');

  it('is retried four times, after waits that double', () => {
    const delays = [1, 2, 3, 4, 5].map((failures) => retryDelayMs(broken, failures, 1));
    const { firstDelayMs } = RETRIES;
    expect(delays).toEqual([...[1, 2, 4, 8].map((times) => times * firstDelayMs), null]);
  });

  it('is retried immediately if it got further', () => {
    expect(retryDelayMs(broken, 0, 1)).toBe(RETRIES.firstDelayMs);
  });

  it.each([
    ['the service requests a long wait', new MirrorError('service.busy', '', { retryAfterMs: 30_001 })],
    ['the error stays', new MirrorError('contents.too_large', '')],
    ['the error is a defect', new Error('defect')],
  ])('is not retried if %s', (_when, error) => {
    expect(retryDelayMs(error, 1, 0)).toBeNull();
  });

  it('waits as long as the service requests', () => {
    const busy = new MirrorError('service.busy', '', { retryAfterMs: 3000 });
    expect(retryDelayMs(busy, 1, 0)).toBe(3000);
  });
});

describe('a pause', () => {
  it.each([
    ['that is over', NOW_MS - 1, 0],
    ['that is running', NOW_MS + 5000, 5000],
    ['of a whole day, the maximum', NOW_MS + 24 * HOUR_MS, 24 * HOUR_MS],
    ['computed by a clock that was ahead', NOW_MS + 24 * HOUR_MS + 1, 0],
    ['that was never requested', null, 0],
    ['without a known end', undefined, 0],
  ])('%s', (_what, pausedUntilMs, leftMs) => {
    const memory: PauseMemory = pausedUntilMs === undefined ? {} : { pausedUntilMs };
    expect(pauseLeftMs(memory, NOW_MS)).toBe(leftMs);
  });

  it('grows and never shrinks', () => {
    const memory: PauseMemory = {};
    expect(extendPause(memory, 0, NOW_MS)).toBe(false);
    expect(extendPause(memory, 5000, NOW_MS)).toBe(true);
    expect(extendPause(memory, 3000, NOW_MS + 1000)).toBe(false);
    expect(memory.pausedUntilMs).toBe(NOW_MS + 5000);
  });

  it('computed by a clock that was ahead is replaced by a real one', () => {
    const memory: PauseMemory = { pausedUntilMs: NOW_MS + 1000 * HOUR_MS };
    expect(extendPause(memory, 5000, NOW_MS)).toBe(true);
    expect(memory.pausedUntilMs).toBe(NOW_MS + 5000);
  });

  it('that grows during the wait lasts to its new end', async () => {
    const memory: PauseMemory = { pausedUntilMs: Date.now() + 20 };
    const startMs = Date.now();
    setTimeout(() => extendPause(memory, 60, Date.now()), 10);
    await waitOut(memory, URL_OF_LIST, new AbortController().signal);
    expect(Date.now() - startMs).toBeGreaterThanOrEqual(65);
  });

  it('that is too long fails the request, which reports its end', async () => {
    const untilMs = Date.now() + 60_000;
    const waited = waitOut({ pausedUntilMs: untilMs }, URL_OF_LIST, new AbortController().signal);
    const error: unknown = await waited.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'service.busy' });
    expect((error as MirrorError).message).toContain(new Date(untilMs).toISOString().slice(0, 16));
    expect((error as MirrorError).retryAfterMs).toBeGreaterThan(59_000);
  });

  it('ends when the pass is abandoned', async () => {
    const abort = new AbortController();
    const waited = waitOut({ pausedUntilMs: Date.now() + 20_000 }, URL_OF_LIST, abort.signal);
    abort.abort();
    await expect(waited).rejects.toMatchObject({ code: 'pass.abandoned' });
  });
});
