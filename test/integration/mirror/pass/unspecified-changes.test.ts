import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { type FakeService, versionTimeMs } from '../../../support/fake-service.ts';
import { startMirrored, startPair } from '../../../support/mirror-harness.ts';

const DAY_MS = 24 * 3_600_000;

function seed(service: FakeService): void {
  service.addRepository('git.example.com/org/plan.git', {
    'a.xlsx': 'a',
    'deep/er/b.xlsx': 'b',
    'readme.md': 'r',
  });
  service.addRepository('Accounting', { 'd.xlsx': 'd', 'e.xlsb': 'e' });
  service.addRepository('Texts', { 'readme.md': 'r' });
}

describe('when a workbook has changed', () => {
  it('pulls only this target and replaces only this file', async () => {
    const { service, mirror } = await startPair();
    seed(service);
    await mirror.pass();
    const before = await mirror.stamps();
    service.takeRequests();
    service.write(service.named(), 'main', 'deep/er/b.xlsx', 'b2');
    await mirror.pass();
    expect(service.takeDownloads()).toHaveLength(1);
    await mirror.expectExact();
    const after = await mirror.stamps();
    const changed = Object.keys(after).filter((path) => after[path] !== before[path]);
    const folder = 'git.example.com/org/plan.git/main/deep/er';
    expect(changed.sort()).toStrictEqual([folder, `${folder}/b.xlsx`]);
  });

  it('gives a workbook the time of its version, and keeps it while the bytes are the same', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
    const first = versionTimeMs(service.version(repository, 'main', 'a.xlsx'));
    const mtime = async (): Promise<number> => {
      const file = (await mirror.manifest('Accounting/main')).files.find(({ path }) => path === 'a.xlsx');
      return Date.parse(file?.mtime ?? '');
    };
    expect(await mtime()).toBe(first);
    const before = (await mirror.stamps())['Accounting/main/a.xlsx'];
    service.write(repository, 'main', 'a.xlsx', 'a');
    await mirror.pass();
    expect((await mirror.stamps())['Accounting/main/a.xlsx']).toBe(before);
    service.write(repository, 'main', 'a.xlsx', 'a3');
    await mirror.pass();
    expect(await mtime()).toBe(versionTimeMs(service.version(repository, 'main', 'a.xlsx')));
  });

  it('publishes it although someone removed private folders and the lock on publishing', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
    for (const name of ['staging', 'trash', 'leases', 'publish.lock'])
      await rm(join(mirror.directory, '.workbook-mirror', name), { recursive: true });
    service.write(repository, 'main', 'a.xlsx', 'a2');
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it.each(['a.xlsx', 'new.xlsx'])(
    'gives %s no version if it changed after the listing, and asks once more',
    async (path) => {
      const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
      service.write(repository, 'main', path, '2');
      service.knobs.beforeDownload = () => {
        service.write(repository, 'main', path, '3, after the listing');
        service.knobs.beforeDownload = null;
      };
      const published = async () =>
        (await mirror.manifest('Accounting/main')).files.find((file) => file.path === path)?.workbook;
      await mirror.exactPass();
      expect(await published()).toBeUndefined();
      await mirror.exactPass();
      expect((await published())?.version).toBe(service.version(repository, 'main', path).id);
      service.takeRequests();
      await mirror.exactPass();
      expect(service.takeDownloads()).toStrictEqual([]);
    },
  );

  it('pulls a first mirror once more if the contents were newer than the listing', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a1' });
    service.knobs.beforeDownload = () => {
      service.write(repository, 'main', 'a.xlsx', 'a2, after the listing');
      service.knobs.beforeDownload = null;
    };
    await mirror.exactPass();
    service.takeRequests();
    // Several answers must agree before its bytes count as the new version.
    for (const minutes of [0, 5, 10]) await mirror.pass({ trigger: 'schedule', aheadMs: minutes * 60_000 });
    expect(service.takeDownloads().filter((request) => request.includes('/contents?'))).toHaveLength(3);
    await mirror.pass({ trigger: 'schedule', aheadMs: 15 * 60_000 });
    expect(service.takeDownloads()).toStrictEqual([]);
    const version = service.version(repository, 'main', 'a.xlsx').id;
    expect((await mirror.manifest('Accounting/main')).files[0]?.workbook?.version).toBe(version);
  });
});

describe('entity tags', () => {
  it('download nothing while the contents are the same', async () => {
    const { service, mirror } = await startPair({ etag: 'strong', conditional: true });
    seed(service);
    await mirror.pass();
    const before = await mirror.stamps();
    const report = await mirror.pass({ aheadMs: DAY_MS + 60_000 });
    expect(report.summary).toMatchObject({ pulled: 3, downloadedBytes: 0, changedFiles: 0 });
    expect(await mirror.stamps()).toStrictEqual(before);
    service.write(service.named(), 'main', 'readme.md', 'changed');
    await mirror.exactPass({ aheadMs: 3 * DAY_MS });
  });

  it.each([
    ['strong', false],
    ['weak', true],
    ['none', false],
  ] as const)('that are %s (honoured: %s) miss no change', async (etag, conditional) => {
    const { service, mirror } = await startPair({ etag, conditional });
    seed(service);
    await mirror.pass();
    service.write(service.named(), 'main', 'readme.md', 'changed');
    await mirror.exactPass({ aheadMs: DAY_MS + 60_000 });
    const isSent = service.requests.some(({ headers }) => headers['if-none-match'] !== undefined);
    expect(isSent).toBe(etag === 'strong');
  });
});

describe('without a list of workbooks', () => {
  it('needs no token, and follows changes by the contents', async () => {
    const { service, mirror } = await startPair({}, { SERVICE_API_TOKEN: '', TARGETS: 'Accounting/main' });
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'readme.md': 'r' });
    const expected = (): Record<string, ReadonlyMap<string, Buffer>> => ({
      'Accounting/main': new Map(repository.branches.get('main')?.files),
    });
    await mirror.pass();
    await mirror.expectExact(expected());
    service.write(repository, 'main', 'readme.md', 'r2');
    await mirror.pass();
    await mirror.expectExact(expected());
    expect(service.takeRequests().filter((request) => request.includes('/v1/'))).toStrictEqual([]);
  });

  it('keeps the known branches when v1 is switched off, and on again', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a' });
    service.write(repository, 'dev', 'b.xlsx', 'b');
    await mirror.pass();
    const expected = service.expectedTrees();
    const before = await mirror.stamps();
    service.takeDownloads();
    service.knobs.v1 = '404';
    expect(await mirror.failure()).toMatchObject({ code: 'service.not_found' });
    expect(service.takeDownloads()).toStrictEqual([]);
    for (let pass = 0; pass < 3; pass += 1) await mirror.pass();
    await mirror.expectExact(expected);
    service.knobs.v1 = 'on';
    await mirror.exactPass();
    expect(await mirror.stamps()).toStrictEqual(before);
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expect(service.takeDownloads()).toStrictEqual([]);
  });
});

it('a workbook that failed in the service is reported once, and once more when it recovered', async () => {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a' });
  const version = service.version(repository, 'main', 'a.xlsx');
  Object.assign(version, { failure: 1, status: 'failed' });
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  await mirror.expectExact();
  expect(mirror.eventsOf('upstream.workbook_failed')).toHaveLength(1);
  version.failure = 0;
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  expect(mirror.eventsOf('upstream.workbook_recovered')).toHaveLength(1);
});

it('a workbook that failed in the service is not reported if its repository or branch is left out', async () => {
  const { service, mirror } = await startPair(
    {},
    { REPOSITORIES_EXCLUDE: 'Travel', BRANCHES_EXCLUDE: 'dev' },
  );
  for (const name of ['Accounting', 'Travel']) {
    const repository = service.addRepository(name, { 'a.xlsx': 'a' });
    service.write(repository, 'dev', 'b.xlsx', 'b');
    for (const [branch, path] of [
      ['main', 'a.xlsx'],
      ['dev', 'b.xlsx'],
    ] as const)
      Object.assign(service.version(repository, branch, path), { failure: 1 });
  }
  await mirror.pass();
  const reported = mirror.eventsOf('upstream.workbook_failed').map(({ workbookId }) => workbookId);
  expect(reported).toEqual(['Accounting/a.xlsx']);
});

it('workbooks of a repository that is not listed are reported once, and everything else is mirrored', async () => {
  const { service, mirror } = await startPair({ unlistedIntegrations: ['git.example.com/ghost.git'] });
  seed(service);
  expect((await mirror.exactPass()).exitCode).toBe(0);
  expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
  await mirror.pass();
  expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
});

it('pages that never agree end the pass, and nothing is touched', async () => {
  const { service, mirror } = await startPair({ pageSize: 2 });
  seed(service);
  await mirror.pass();
  const before = await mirror.stamps();
  let number = 0;
  service.knobs.afterPage = () => {
    number += 1;
    service.write(service.named(), 'main', `more-${number}.xlsx`, 'more');
    if (number > 100) service.knobs.afterPage = null;
  };
  expect(await mirror.failure()).toMatchObject({ code: 'listing.inconsistent', action: 'retry' });
  expect(await mirror.stamps()).toStrictEqual(before);
});
