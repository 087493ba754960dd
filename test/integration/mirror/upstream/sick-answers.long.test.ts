import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { describe, expect, it } from 'vitest';

import { type FakeService, type Fault, isForContents } from '../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

/** A mirror of two targets; both have a new version, which is not pulled yet. */
async function withChanges(settings: HarnessSettings = {}): ReturnType<typeof startPair> {
  const { SERVICE_TIMEOUT, ...others } = settings;
  const { service, mirror } = await startPair({}, { CONTENT: 'all', ...others });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a'.repeat(5000), 'b.xlsx': 'b' });
  const other = service.addRepository('Other', { 'o.xlsx': 'o' });
  await mirror.pass();
  // A short timeout begins after the first pass, which is healthy.
  if (SERVICE_TIMEOUT !== undefined) await mirror.restart({ SERVICE_TIMEOUT });
  service.write(repository, 'main', 'b.xlsx', 'b2');
  service.write(other, 'main', 'o.xlsx', 'o2');
  service.takeRequests();
  return { service, mirror };
}

async function healed(service: FakeService, mirror: MirrorHarness): Promise<void> {
  service.fault = null;
  expect((await mirror.exactPass()).exitCode).toBe(0);
  expect(service.credentialFaults()).toStrictEqual([]);
}

/** A mirror whose service answers a request for the contents of Accounting with a fault. */
async function withSickContents(fault: Fault, settings: HarnessSettings = {}) {
  const { service, mirror } = await withChanges(settings);
  const isConcerned = (path: string): boolean => isForContents(path, service.named());
  service.faultContents(fault, service.named());
  return { service, mirror, isConcerned };
}

async function stampsOfAccounting(mirror: MirrorHarness): Promise<Record<string, string>> {
  const stamps = Object.entries(await mirror.stamps());
  return Object.fromEntries(stamps.filter(([path]) => path.startsWith('Accounting')));
}

/**
 * Only Accounting fails, nothing of it changes, and it is pulled as soon as the service is well.
 * @param restarts whether the mirror first gets a longer timeout
 */
async function failsAlone(
  { service, mirror, isConcerned }: Awaited<ReturnType<typeof withSickContents>>,
  failure: object,
  restarts = false,
): Promise<string[]> {
  const before = await stampsOfAccounting(mirror);
  const results = await mirror.results();
  expect(results['Accounting/main']).toMatchObject({ outcome: 'failed', ...failure });
  expect(results['Other/main']).toMatchObject({ outcome: 'pulled' });
  expect(await stampsOfAccounting(mirror)).toStrictEqual(before);
  const requests = service.takeRequests().filter(isConcerned);
  if (restarts) await mirror.restart({ SERVICE_TIMEOUT: '20s' });
  await healed(service, mirror);
  return requests;
}

/** The largest answer in JSON that is read. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

describe.each(['/repos', '/v1/workbooks'])('a list: %s', (list) => {
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

  const failures: readonly [string, Fault, string, number][] = [
    ['status 500', { kind: 'status', status: 500 }, 'service.failed', 5],
    ['status 408', { kind: 'status', status: 408 }, 'service.failed', 5],
    ['a body that breaks off', { kind: 'cut', after: 10 }, 'service.unreachable', 5],
    ['a login page', { kind: 'html' }, 'service.wrong_kind', 1],
    ['a body that is cut and whole by its length', { kind: 'truncate', keep: 10 }, 'service.wrong_kind', 1],
  ];
  it.each(failures)('with %s ends the pass and touches nothing', async (_name, fault, code, requests) => {
    const { service, mirror } = await withChanges();
    const before = await mirror.stamps();
    service.fault = (path) => (path.endsWith(list) ? fault : null);
    expect(await mirror.failure()).toMatchObject({ code });
    expect(service.takeRequests().filter((request) => request.endsWith(list))).toHaveLength(requests);
    expect(await mirror.stamps()).toStrictEqual(before);
    expect(mirror.eventsOf('pass.failed')).toMatchObject([{ code }]);
    await healed(service, mirror);
  });

  it('is read by the retry within the pass when it failed once', async () => {
    const { service, mirror } = await withChanges();
    service.failTimes(list, 1, { kind: 'status', status: 500 });
    expect((await mirror.exactPass()).exitCode).toBe(0);
    expect(mirror.eventsOf('service.retry')).toMatchObject([{ code: 'service.failed' }]);
  });
});

it('a list without end ends the pass, and is not requested twice', async () => {
  const { service, mirror } = await withChanges();
  const piece = Buffer.alloc(8 * 1024 * 1024, ' ');
  service.fault = (path) => (path.endsWith('/repos') ? { kind: 'endless', after: 1, piece } : null);
  expect(await mirror.failure()).toMatchObject({ code: 'service.answer_too_large', action: 'stall' });
  expect(service.takeRequests().filter((request) => request.endsWith('/repos'))).toHaveLength(1);
});

it('a list that comes byte by byte is given up', async () => {
  const { service, mirror } = await withChanges({ SERVICE_TIMEOUT: '60ms' });
  service.fault = (path) => (path.endsWith('/repos') ? { kind: 'trickle', everyMs: 20 } : null);
  expect(await mirror.failure()).toMatchObject({ code: 'service.timeout', action: 'retry' });
  await mirror.restart({ SERVICE_TIMEOUT: '20s' });
  await healed(service, mirror);
});

describe('a download', () => {
  const tooGreat: readonly [string, Fault][] = [
    ['too great, and says so', { kind: 'body', body: Buffer.alloc(2_000_001, 'PK\u0003\u0004') }],
    [
      'that explodes when it is unpacked',
      { kind: 'body', body: gzipSync(Buffer.alloc(8_000_000, ' ')), headers: { 'content-encoding': 'gzip' } },
    ],
  ];
  it.each(tooGreat)('%s fails only its target, once, and leaves nothing behind', async (_what, fault) => {
    const { service, mirror, isConcerned } = await withSickContents(fault, { ARCHIVE_MAX_SIZE: '2MB' });
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
  it.each(['gzip, gzip', 'x-secret'])('that is not known is an error: %s', async (coding) => {
    const { service, mirror } = await withChanges();
    const before = await mirror.stamps();
    const headers = { 'content-encoding': coding };
    service.fault = () => ({ kind: 'body', body: Buffer.from('[]'), headers });
    expect(await mirror.failure()).toMatchObject({ code: 'service.wrong_kind' });
    service.faultContents({ kind: 'body', body: Buffer.from('PK\u0005\u0006'), headers });
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'service.wrong_kind' });
    expect(await mirror.stamps()).toStrictEqual(before);
    await healed(service, mirror);
  });

  it.each(['identity', ''])('that is known is undone: %j', async (coding) => {
    const { service, mirror } = await withChanges();
    service.knobs.headers = { 'content-encoding': coding };
    await healed(service, mirror);
  });
});

describe('a pause that the service asks for', () => {
  function busy(status: number, wish: string): Fault {
    return { kind: 'status', status, headers: { 'retry-after': wish } };
  }

  it.each([
    [429, '/repos'],
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

  it('until a date is as long as it is by the clock of the service', async () => {
    const { service, mirror } = await withChanges();
    const later = (seconds: number): string => new Date(Date.now() + 1000 * (18_000 + seconds)).toUTCString();
    service.knobs.headers = { date: later(0) };
    service.fault = () => busy(503, later(600));
    const { retryAfterMs = 0 } = await mirror.failure();
    expect(Math.round(retryAfterMs / 60_000)).toBe(10);
  });

  it('while pulls run stops those that have not begun, and each says until when', async () => {
    const { service, mirror } = await withChanges({ CONCURRENCY: '1' });
    service.fault = (path) => (path.includes('/contents') ? busy(429, '600') : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'service.busy' });
    expect(results['Other/main']).toMatchObject({ code: 'service.busy' });
    expect(service.takeDownloads()).toHaveLength(1);
  });

  it('is recorded immediately, and survives the process, although the pass failed because of it', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    const state = join(mirror.directory, '.workbook-mirror');
    const written = async (): Promise<string> => {
      const names = (await readdir(state)).filter((name) => name.startsWith('state'));
      return (await Promise.all(names.map((name) => readFile(join(state, name), 'latin1')))).join('\n');
    };
    await expect.poll(written).toMatch(/"pausedUntilMs":\d/);
    service.takeRequests();
    service.fault = null;
    await mirror.restart();
    expect(await mirror.failure()).toMatchObject({ code: 'service.busy' });
    expect(service.takeRequests()).toStrictEqual([]);
  });

  it('ends with a change of its address', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(503, '600');
    await mirror.failure();
    service.fault = null;
    await mirror.restart({ SERVICE_BASE_URL: service.baseUrl.replace('127.0.0.1', 'localhost') });
    await mirror.exactPass();
  });

  it('with status 500 is ignored', async () => {
    const { service, mirror } = await withChanges();
    service.fault = () => busy(500, '600');
    await mirror.failure();
    service.takeRequests();
    await healed(service, mirror);
  });
});

describe('contents', () => {
  const failures: readonly [string, Fault, string, string, number][] = [
    ['status 500', { kind: 'status', status: 500 }, 'service.failed', 'retry', 5],
    ['status 403', { kind: 'status', status: 403 }, 'contents.forbidden', 'stall', 1],
    ['a body that breaks off', { kind: 'cut', after: 100 }, 'contents.interrupted', 'retry', 5],
    ['a length that is too small', { kind: 'length', delta: -10 }, 'archive.damaged', 'retry', 1],
    [
      'an archive that is cut and whole by its length',
      { kind: 'truncate', keep: 200 },
      'archive.damaged',
      'retry',
      1,
    ],
  ];
  it.each(failures)('with %s fail only this target', async (_name, fault, code, errorAction, requests) => {
    const pair = await withSickContents(fault);
    expect(await failsAlone(pair, { code, errorAction })).toHaveLength(requests);
  });

  const kinds: readonly [string, Fault][] = [
    ['a login page', { kind: 'html' }],
    ['two bytes', { kind: 'truncate', keep: 2 }],
    [
      'something else before the archive',
      { kind: 'body', body: Buffer.from('garbage garbage PK\u0003\u0004') },
    ],
  ];
  it.each(kinds)('with status 200 and %s are recognised as of the wrong kind', async (_name, fault) => {
    await failsAlone(await withSickContents(fault), { code: 'contents.wrong_kind', errorAction: 'retry' });
  });
});

it.each([
  ['before', { kind: 'silence' }, 'service.timeout'],
  ['within', { kind: 'stall', after: 50 }, 'contents.interrupted'],
] as const)('a service that falls silent %s contents fails only this target', async (_when, fault, code) => {
  const pair = await withSickContents(fault, { SERVICE_TIMEOUT: '400ms' });
  expect(await failsAlone(pair, { code, errorAction: 'retry' }, true)).toHaveLength(5);
});
