import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import type { Fault, FakeService } from '../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

/** A mirror of two targets, one of which has a new version that is yet to be pulled. */
async function withChange(
  settings: HarnessSettings = {},
): Promise<{ service: FakeService; mirror: MirrorHarness; before: Record<string, string> }> {
  const { service, mirror } = await startPair({}, { CONTENT: 'all', ...settings });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a'.repeat(5000), 'b.xlsx': 'b' });
  const other = service.addRepository('Other', { 'o.xlsx': 'o' });
  await mirror.pass();
  service.write(repository, 'main', 'b.xlsx', 'b2');
  service.write(other, 'main', 'o.xlsx', 'o2');
  service.takeRequests();
  return { service, mirror, before: await stampsOf(mirror, 'Accounting') };
}

async function stampsOf(mirror: MirrorHarness, repository: string): Promise<Record<string, string>> {
  const stamps = Object.entries(await mirror.stamps());
  return Object.fromEntries(stamps.filter(([path]) => path.startsWith(repository)));
}

function contentsOf(service: FakeService, repository: string): (path: string) => boolean {
  const id = service.repositories.find(({ name }) => name === repository)?.id ?? '';
  return (path) => path.includes('/contents') && (path.includes(id) || path.includes(`/${repository}/`));
}

/** As many bytes as of an answer in JSON are read, and a few more, in pieces. */
const PIECE = Buffer.alloc(8 * 1024 * 1024, ' ');
const PIECES = 33;

describe('a list', () => {
  it.each<[string, string, Fault]>([
    ['without end', '/repos', { kind: 'endless', after: 1, piece: PIECE }],
    [
      'that explodes when it is unpacked',
      '/v1/workbooks',
      {
        kind: 'body',
        body: Buffer.concat(Array.from({ length: PIECES }, () => gzipSync(PIECE))),
        headers: { 'content-encoding': 'gzip' },
      },
    ],
  ])('%s ends the pass, and is not requested twice', async (_what, list, fault) => {
    const { service, mirror } = await withChange();
    service.fault = (path) => (path.endsWith(list) ? fault : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.answer_too_large', action: 'stall' });
    expect(service.takeRequests().filter((request) => request.endsWith(list))).toHaveLength(1);
  });

  const failures: readonly [string, Fault, string, number][] = [
    ['status 500', { kind: 'status', status: 500 }, 'service.failed', 5],
    ['status 503', { kind: 'status', status: 503 }, 'service.failed', 5],
    ['status 429', { kind: 'status', status: 429 }, 'service.busy', 5],
    ['status 408', { kind: 'status', status: 408 }, 'service.failed', 5],
    ['a body that breaks off', { kind: 'cut', after: 10 }, 'service.unreachable', 5],
    ['a length that is too great', { kind: 'length', delta: 10 }, 'service.unreachable', 5],
    ['status 401', { kind: 'status', status: 401 }, 'credentials.refused', 1],
    ['status 403', { kind: 'status', status: 403 }, 'credentials.refused', 1],
    ['status 418', { kind: 'status', status: 418 }, 'service.wrong_kind', 1],
    ['a login page', { kind: 'html' }, 'service.wrong_kind', 1],
    ['JSON of another kind', { kind: 'json' }, 'service.wrong_kind', 1],
    ['a body that is cut and whole by its length', { kind: 'truncate', keep: 10 }, 'service.wrong_kind', 1],
    ['nothing', { kind: 'truncate', keep: 0 }, 'service.wrong_kind', 1],
    ['more than JSON', { kind: 'pad', bytes: 3 }, 'service.wrong_kind', 1],
  ];
  describe.each(['/repos', '/v1/workbooks'])('%s', (path) => {
    it.each(failures)('with %s ends the pass and touches nothing', async (_name, fault, code, requests) => {
      const { service, mirror } = await withChange();
      const before = await mirror.stamps();
      service.fault = (asked) => (asked.endsWith(path) ? fault : null);
      expect(await mirror.failure()).toMatchObject({ code });
      expect(service.takeRequests().filter((request) => request.endsWith(path))).toHaveLength(requests);
      expect(await mirror.stamps()).toStrictEqual(before);
      expect(mirror.eventsOf('pass.failed')).toMatchObject([{ code }]);
      service.fault = null;
      await mirror.pass();
      await mirror.expectExact();
    });

    it('is read by the retry within the pass when it failed once', async () => {
      const { service, mirror } = await withChange();
      service.failTimes(path, 1, { kind: 'status', status: 500 });
      expect((await mirror.pass()).exitCode).toBe(0);
      await mirror.expectExact();
      expect(mirror.eventsOf('service.retry')).toMatchObject([{ code: 'service.failed' }]);
    });
  });

  it('of repositories with status 404 suggests an error in the address', async () => {
    const { service, mirror } = await withChange();
    service.fault = () => ({ kind: 'status', status: 404 });
    expect(await mirror.failure()).toMatchObject({ code: 'service.not_found' });
  });
});

describe('contents', () => {
  const failures: readonly [string, Fault, string, string, number][] = [
    ['status 500', { kind: 'status', status: 500 }, 'service.failed', 'retry', 5],
    ['status 429', { kind: 'status', status: 429 }, 'service.busy', 'retry', 5],
    ['status 403', { kind: 'status', status: 403 }, 'contents.forbidden', 'stall', 1],
    ['a body that breaks off', { kind: 'cut', after: 100 }, 'contents.interrupted', 'retry', 5],
    ['a body that breaks off at once', { kind: 'cut', after: 0 }, 'contents.interrupted', 'retry', 5],
    ['a length that is too great', { kind: 'length', delta: 10 }, 'contents.interrupted', 'retry', 5],
    ['a length that is too small', { kind: 'length', delta: -10 }, 'archive.damaged', 'retry', 1],
    [
      'an archive that is cut and whole by its length',
      { kind: 'truncate', keep: 200 },
      'archive.damaged',
      'retry',
      1,
    ],
    ['an archive with something behind it', { kind: 'pad', bytes: 100 }, 'archive.damaged', 'retry', 1],
  ];
  it.each(failures)('with %s fail only this target', async (_name, fault, code, errorAction, requests) => {
    const { service, mirror, before } = await withChange();
    const isConcerned = contentsOf(service, 'Accounting');
    service.fault = (path) => (isConcerned(path) ? fault : null);
    const report = await mirror.results();
    expect(report['Accounting/main']).toMatchObject({ outcome: 'failed', code, errorAction });
    expect(report['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(service.takeRequests().filter(isConcerned)).toHaveLength(requests);
    expect(await stampsOf(mirror, 'Accounting')).toStrictEqual(before);
    service.fault = null;
    await mirror.pass();
    await mirror.expectExact();
  });

  const kinds: readonly [string, Fault][] = [
    ['a login page', { kind: 'html' }],
    ['an error in JSON', { kind: 'json' }],
    ['nothing', { kind: 'truncate', keep: 0 }],
    ['two bytes', { kind: 'truncate', keep: 2 }],
    [
      'something else before the archive',
      { kind: 'body', body: Buffer.from('garbage garbage PK\u0003\u0004') },
    ],
  ];
  it.each(kinds)('with status 200 and %s are recognised as of the wrong kind', async (_name, fault) => {
    const { service, mirror, before } = await withChange();
    const isConcerned = contentsOf(service, 'Accounting');
    service.fault = (path) => (isConcerned(path) ? fault : null);
    const report = await mirror.results();
    expect(report['Accounting/main']).toMatchObject({ code: 'contents.wrong_kind', errorAction: 'retry' });
    expect(report['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(await stampsOf(mirror, 'Accounting')).toStrictEqual(before);
    service.fault = null;
    await mirror.pass();
    await mirror.expectExact();
  });

  it.each(kinds.slice(-2))(
    'of the wrong kind are named for a person as what they are: %s',
    async (_name, fault) => {
      const { service, mirror } = await withChange();
      service.fault = (path) => (path.includes('/contents') ? fault : null);
      await mirror.pass();
      const [failure] = mirror.eventsOf('target.failed');
      expect(failure?.message).not.toMatch(/with a zip archive where|that is not JSON where/);
    },
  );

  it('that break off once are downloaded again within the pass', async () => {
    const { service, mirror } = await withChange();
    service.failTimes('/contents', 1, { kind: 'cut', after: 50 });
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it('with status 401 fail each target separately, without retries', async () => {
    const { service, mirror } = await withChange({ CONCURRENCY: '1' });
    service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 401 } : null);
    const codes = Object.values(await mirror.results()).map(({ code }) => code);
    expect(new Set(codes)).toStrictEqual(new Set(['contents.forbidden']));
    expect(service.takeDownloads()).toHaveLength(codes.length);
  });

  it('that keep failing wait, unless a person asks', async () => {
    const { service, mirror } = await withChange();
    service.fault = (path) => (path.includes('/contents') ? { kind: 'json' } : null);
    await mirror.pass();
    service.takeRequests();
    const held = await mirror.results({ trigger: 'schedule' });
    expect(held['Accounting/main']).toMatchObject({ action: 'hold', reason: 'backing-off' });
    expect(service.takeDownloads()).toStrictEqual([]);
    service.fault = null;
    await mirror.pass({ trigger: 'command' });
    await mirror.expectExact();
  });
});

describe('Retry-After', () => {
  it.each(['0', 'Thu, 01 Jan 1970 00:00:00 GMT', 'nonsense'])(
    'of %s is retried within the pass',
    async (wish) => {
      const { service, mirror } = await withChange();
      service.failTimes('/repos', 2, { kind: 'status', status: 429, headers: { 'retry-after': wish } });
      expect((await mirror.pass()).exitCode).toBe(0);
      await mirror.expectExact();
    },
  );

  it('that is longer than a pass waits is not retried in the pass', async () => {
    const { service, mirror } = await withChange();
    service.failTimes('/repos', 1, { kind: 'status', status: 503, headers: { 'retry-after': '3600' } });
    expect(await mirror.failure()).toMatchObject({ code: 'service.failed', retryAfterMs: 3_600_000 });
    expect(service.takeRequests()).toHaveLength(1);
  });

  it('is not undercut by the next attempt at a target', async () => {
    const { service, mirror } = await withChange();
    const wish = { 'retry-after': '7200' };
    service.fault = (path) =>
      path.includes('/contents') ? { kind: 'status', status: 429, headers: wish } : null;
    await mirror.pass();
    service.fault = null;
    service.takeRequests();
    const realMs = Date.now();
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'], now: realMs + 7_100_000 });
    expect(await mirror.failure({ trigger: 'schedule' })).toMatchObject({ code: 'service.busy' });
    expect(service.takeRequests()).toStrictEqual([]);
    vi.setSystemTime(realMs + 7_300_000);
    await mirror.pass({ trigger: 'schedule' });
    await mirror.expectExact();
  });
});

describe('a service that falls silent', () => {
  it.each(['/repos', '/v1/workbooks'])('before its answer to %s ends the pass', async (path) => {
    const { service, mirror } = await withChange({ SERVICE_TIMEOUT: '100ms' });
    service.fault = (asked) => (asked.endsWith(path) ? { kind: 'silence' } : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.timeout', action: 'retry' });
    expect(service.takeRequests().filter((request) => request.endsWith(path))).toHaveLength(5);
  });

  it('within its answer to /repos ends the pass', async () => {
    const { service, mirror } = await withChange({ SERVICE_TIMEOUT: '100ms' });
    service.fault = (asked) => (asked.endsWith('/repos') ? { kind: 'stall', after: 5 } : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.timeout' });
  });

  it.each([
    ['before', { kind: 'silence' }, 'service.timeout'],
    ['within', { kind: 'stall', after: 50 }, 'contents.interrupted'],
  ] as const)('%s contents fails only this target', async (_when, fault, code) => {
    const { service, mirror, before } = await withChange({
      SERVICE_TIMEOUT: '150ms',
    });
    const isConcerned = contentsOf(service, 'Accounting');
    service.fault = (path) => (isConcerned(path) ? fault : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code, errorAction: 'retry' });
    expect(results['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(await stampsOf(mirror, 'Accounting')).toStrictEqual(before);
  });
});
