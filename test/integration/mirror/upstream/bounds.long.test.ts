import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import type { Fault, FakeService } from '../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

/** A mirror of two targets; both have a new version, which is not pulled yet. */
async function withChanges(
  settings: HarnessSettings = {},
): Promise<{ service: FakeService; mirror: MirrorHarness }> {
  const { service, mirror } = await startPair({}, { CONTENT: 'all', ...settings });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
  const other = service.addRepository('Other', { 'o.xlsx': 'o' });
  await mirror.pass();
  service.write(repository, 'main', 'b.xlsx', 'b2');
  service.write(other, 'main', 'o.xlsx', 'o2');
  service.takeRequests();
  return { service, mirror };
}

async function healed(service: FakeService, mirror: MirrorHarness): Promise<void> {
  service.fault = null;
  expect((await mirror.pass()).exitCode).toBe(0);
  await mirror.expectExact();
  expect(service.credentialFaults()).toStrictEqual([]);
}

/** The largest answer in JSON that is read. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

describe('an answer in JSON', () => {
  describe.each(['/repos', '/v1/workbooks'])('of %s', (list) => {
    it('that announces too large a size ends the pass, and is not requested twice', async () => {
      const { service, mirror } = await withChanges();
      const before = await mirror.stamps();
      service.fault = (path) => (path.endsWith(list) ? { kind: 'length', delta: MAX_ANSWER_BYTES } : null);
      const error = await mirror.failure();
      expect(error).toMatchObject({ code: 'service.answer_too_large', action: 'stall' });
      expect(error.message).toContain('256 MiB');
      expect(service.takeRequests().filter((request) => request.endsWith(list))).toHaveLength(1);
      expect(await mirror.stamps()).toStrictEqual(before);
      await healed(service, mirror);
    });

    it('that comes byte by byte is given up', async () => {
      const { service, mirror } = await withChanges({
        SERVICE_TIMEOUT: '60ms',
      });
      service.fault = (path) => (path.endsWith(list) ? { kind: 'trickle', everyMs: 20 } : null);
      expect(await mirror.failure()).toMatchObject({ code: 'service.timeout' });
      await mirror.restart({ SERVICE_TIMEOUT: '20s' });
      await healed(service, mirror);
    });
  });
});

describe('a download', () => {
  const zip = Buffer.from('PK\u0003\u0004');
  const tooGreat: readonly [string, Fault, number][] = [
    ['too great, and says so', { kind: 'body', body: Buffer.alloc(2_000_001, zip) }, 0],
    ['without end', { kind: 'endless', after: 4, piece: Buffer.alloc(65_536, zip) }, 0],
    [
      'that explodes when it is unpacked',
      { kind: 'body', body: gzipSync(Buffer.alloc(8_000_000, ' ')), headers: { 'content-encoding': 'gzip' } },
      0,
    ],
  ];
  it.each(tooGreat)('%s fails only its target, once, and leaves nothing behind', async (_what, fault) => {
    const { service, mirror } = await withChanges({ ARCHIVE_MAX_SIZE: '2MB' });
    const [{ id } = { id: '' }] = service.repositories;
    const isConcerned = (path: string): boolean => path.includes(id) && path.includes('/contents');
    service.fault = (path) => (isConcerned(path) ? fault : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({
      code: 'contents.too_large',
      errorAction: 'quarantine',
    });
    expect(results['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(mirror.eventsOf('target.failed')[0]?.message).toContain('archive.maxSize');
    expect(service.takeRequests().filter(isConcerned)).toHaveLength(1);
    expect(await readdir(join(mirror.directory, '.workbook-mirror/staging'))).toStrictEqual([]);
    service.fault = null;
    expect((await mirror.results({ trigger: 'schedule' }))['Accounting/main']).toMatchObject({
      reason: 'quarantined',
    });
    service.write(service.named(), 'main', 'b.xlsx', 'b3');
    await healed(service, mirror);
  });

  it('that hardly moves is given up', async () => {
    const { service, mirror } = await withChanges({ SERVICE_TIMEOUT: '60ms' });
    service.fault = (path) => (path.includes('/contents') ? { kind: 'trickle', everyMs: 20 } : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'contents.interrupted' });
    await mirror.restart({ SERVICE_TIMEOUT: '20s' });
    await healed(service, mirror);
  });
});

describe('a content coding', () => {
  it.each(['compress', 'gzip, gzip', 'x-secret', 'aes128gcm'])(
    'that is not known is an error: %s',
    async (coding) => {
      const { service, mirror } = await withChanges();
      const before = await mirror.stamps();
      service.fault = () => ({
        kind: 'body',
        body: Buffer.from('[]'),
        headers: { 'content-encoding': coding },
      });
      expect(await mirror.failure()).toMatchObject({ code: 'service.wrong_kind' });
      service.fault = (path) =>
        path.includes('/contents')
          ? { kind: 'body', body: Buffer.from('PK\u0005\u0006'), headers: { 'content-encoding': coding } }
          : null;
      const results = await mirror.results();
      expect(results['Accounting/main']).toMatchObject({ code: 'service.wrong_kind' });
      expect(await mirror.stamps()).toStrictEqual(before);
      await healed(service, mirror);
    },
  );

  it.each(['identity', '', 'GZIP'])('that is known is undone: %j', async (coding) => {
    const { service, mirror } = await withChanges();
    if (coding === 'GZIP') service.knobs.contentEncoding = 'gzip';
    else service.knobs.headers = { 'content-encoding': coding };
    await healed(service, mirror);
  });
});

describe('a pause that the service asks for', () => {
  function busy(status: number, wish: string): Fault {
    return { kind: 'status', status, headers: { 'retry-after': wish } };
  }

  it.each([
    [429, '/repos'],
    [503, '/repos'],
    [429, '/v1/workbooks'],
    [503, '/v1/workbooks'],
  ])('with status %i at %s holds for every request', async (status, list) => {
    const { service, mirror } = await withChanges();
    service.fault = (path) => (path.endsWith(list) ? busy(status, '600') : null);
    await mirror.failure();
    const sent = service.takeRequests();
    expect(sent.filter((request) => request.endsWith(list))).toHaveLength(1);
    service.fault = null;
    const error = await mirror.failure();
    expect(error).toMatchObject({ code: 'service.busy', action: 'retry' });
    expect(error.retryAfterMs).toBeGreaterThan(590_000);
    expect(service.takeRequests()).toStrictEqual([]);
  });

  it('while pulls run stops those that have not begun, and each says until when', async () => {
    const { service, mirror } = await withChanges({ CONCURRENCY: '1' });
    service.fault = (path) => (path.includes('/contents') ? busy(429, '600') : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'service.busy' });
    expect(results['Other/main']).toMatchObject({ code: 'service.busy' });
    expect(service.takeDownloads()).toHaveLength(1);
  });

  it('survives the process, although the pass failed because of it', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    service.takeRequests();
    service.fault = null;
    await mirror.restart();
    expect(await mirror.failure()).toMatchObject({ code: 'service.busy' });
    expect(service.takeRequests()).toStrictEqual([]);
  });

  it('is recorded immediately, not only when the program ends', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    const state = join(mirror.directory, '.workbook-mirror');
    for (let tries = 0; tries < 100; tries += 1) {
      const names = (await readdir(state)).filter((name) => name.startsWith('state'));
      const texts = await Promise.all(names.map((name) => readFile(join(state, name), 'latin1')));
      if (texts.some((text) => /"pausedUntilMs":\d/.test(text))) return;
      await sleep(20);
    }
    throw new Error('it was not written down');
  });

  it('ends with a change of its address', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    service.fault = null;
    await mirror.restart({ SERVICE_BASE_URL: service.baseUrl.replace('127.0.0.1', 'localhost') });
    await mirror.pass();
    await mirror.expectExact();
  });

  it.each([
    ['is over after it', 601_000],
    ['is ignored when the clock was ahead', -25 * 3_600_000],
  ])('%s', async (_what, differenceMs) => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    service.fault = null;
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + differenceMs });
    await mirror.restart();
    await mirror.pass();
    await mirror.expectExact();
  });

  it('with status 500 is ignored', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(500, '600');
    await mirror.failure();
    service.takeRequests();
    await healed(service, mirror);
  });
});

describe('the service’s clock', () => {
  it('is part of the listing, and reported once if wrong', async () => {
    const { service, mirror } = await withChanges();
    const { signal } = new AbortController();
    const listing = await mirror.context.service.poll(signal, false);
    expect(Math.abs((listing.serviceTimeMs ?? 0) - Date.now())).toBeLessThan(10_000);
    expect(listing.problems).toStrictEqual([]);
    service.knobs.headers = { date: new Date(Date.now() + 3 * 3_600_000 + 60_000).toUTCString() };
    await mirror.pass();
    await mirror.pass();
    expect(mirror.eventsOf('listing.problem')).toMatchObject([
      { problem: "the service's clock is about 3 h ahead of this machine's" },
    ]);
  });
});
