import { describe, expect, it } from 'vitest';

import type { Fault, FakeService } from '../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

/** A mirror of two targets; one has a new version, which is not pulled yet. */
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

const PIECE = Buffer.alloc(8 * 1024 * 1024, ' ');

describe('a list', () => {
  it('without end ends the pass, and is not requested twice', async () => {
    const { service, mirror } = await withChange();
    service.fault = (path) => (path.endsWith('/repos') ? { kind: 'endless', after: 1, piece: PIECE } : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.answer_too_large', action: 'stall' });
    expect(service.takeRequests().filter((request) => request.endsWith('/repos'))).toHaveLength(1);
  });

  const failures: readonly [string, Fault, string, number][] = [
    ['status 500', { kind: 'status', status: 500 }, 'service.failed', 5],
    ['status 408', { kind: 'status', status: 408 }, 'service.failed', 5],
    ['a body that breaks off', { kind: 'cut', after: 10 }, 'service.unreachable', 5],
    ['status 401', { kind: 'status', status: 401 }, 'credentials.refused', 1],
    ['a login page', { kind: 'html' }, 'service.wrong_kind', 1],
    ['a body that is cut and whole by its length', { kind: 'truncate', keep: 10 }, 'service.wrong_kind', 1],
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
});

describe('a service that falls silent', () => {
  it.each(['/repos', '/v1/workbooks'])('before its answer to %s ends the pass', async (path) => {
    const { service, mirror } = await withChange({ SERVICE_TIMEOUT: '100ms' });
    service.fault = (asked) => (asked.endsWith(path) ? { kind: 'silence' } : null);
    expect(await mirror.failure()).toMatchObject({ code: 'service.timeout', action: 'retry' });
    expect(service.takeRequests().filter((request) => request.endsWith(path))).toHaveLength(5);
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
