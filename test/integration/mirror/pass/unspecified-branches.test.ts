import { describe, expect, it } from 'vitest';

import { API_TOKEN } from '../../../support/fake-service.ts';
import { endLease, takeLease } from '../../../support/leases.ts';
import { startMirrored, startPair, treeOf } from '../../../support/mirror-harness.ts';

it('a branch is kept if all its workbooks are now shown on other branches, each in one row', async () => {
  const { service, mirror } = await startPair({ rows: 'latest-only' }, { RETIRE_AFTER_PASSES: '1' });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a1' });
  await mirror.pass();
  service.fork(repository, 'main', 'dev');
  service.write(repository, 'dev', 'a.xlsx', 'a2');
  for (let pass = 0; pass < 3; pass += 1) await mirror.pass();
  await mirror.expectExact({
    'Accounting/main': treeOf({ 'a.xlsx': 'a1' }),
    'Accounting/dev': treeOf({ 'a.xlsx': 'a2' }),
  });
  service.write(repository, 'main', 'a.xlsx', 'a3');
  service.write(repository, 'dev', 'a.xlsx', 'a4');
  await mirror.pass();
  await mirror.expectExact({
    'Accounting/main': treeOf({ 'a.xlsx': 'a3' }),
    'Accounting/dev': treeOf({ 'a.xlsx': 'a4' }),
  });
});

it('a workbook deleted on one branch does not stay there because another branch has it', async () => {
  const { service, mirror, repository } = await startMirrored('Accounting', { 'x.xlsx': 'x', 'y.xlsx': 'y' });
  service.fork(repository, 'main', 'dev');
  service.write(repository, 'dev', 'x.xlsx', 'x of dev');
  await mirror.exactPass();
  const lagging = new Map(repository.branches.get('dev')?.files);
  service.remove(repository, 'dev', 'x.xlsx');
  service.knobs.contentsOf = (_repository, branch) => (branch === 'dev' ? lagging : undefined);
  expect(await mirror.results()).toMatchObject({ 'Accounting/dev': { code: 'contents.contradicted' } });
  service.knobs.contentsOf = null;
  await mirror.pass({ aheadMs: 3_600_000 });
  await mirror.expectExact();
});

it('a workbook deleted between its contents and the list that confirms them leaves with the next pass', async () => {
  const { service, mirror, repository } = await startMirrored('Accounting', { 'x.xlsx': 'x', 'y.xlsx': 'y' });
  service.fork(repository, 'main', 'dev');
  await mirror.exactPass();
  service.write(repository, 'dev', 'x.xlsx', 'x');
  let lists = 0;
  service.fault = (path) => {
    if (path.includes('/v1/workbooks') && (lists += 1) === 2) service.remove(repository, 'dev', 'x.xlsx');
    return null;
  };
  await mirror.pass();
  expect(lists).toBeGreaterThan(1);
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  await mirror.expectExact();
});

it('HEAD stays beside a branch with fewer files, and goes to the history once its own branch is known', async () => {
  const files = { 'readme.md': 'r', 'data.csv': 'd' };
  const { service, mirror, repository } = await startMirrored('Accounting', files);
  service.write(repository, 'another', 'b.xlsx', 'b');
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  expect(await mirror.targets()).toStrictEqual(['Accounting/HEAD', 'Accounting/another']);
  service.write(repository, 'main', 'a.xlsx', 'a');
  for (let pass = 0; pass < 2; pass += 1) {
    await mirror.pass();
    expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ ...files, 'a.xlsx': 'a' }));
  }
  await mirror.expectExact();
  const history = [...(await mirror.files('history/Accounting/HEAD')).values()].map(String);
  expect(history).toContain('r');
});

it('HEAD beside a branch with fewer files follows the rows of its own branch, which is not selected', async () => {
  const files = { 'a.xlsx': 'a', 'b.xlsx': 'b' };
  const { service, mirror, repository } = await startMirrored('Plan', files, { SERVICE_API_TOKEN: '' });
  service.write(repository, 'another', 'a.xlsx', 'another');
  await mirror.restart({ SERVICE_API_TOKEN: API_TOKEN, BRANCHES_EXCLUDE: 'main' });
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  service.write(repository, 'main', 'b.xlsx', 'b2');
  expect((await mirror.pass()).exitCode).toBe(0);
  expect(await mirror.tree('Plan/HEAD')).toStrictEqual(treeOf({ ...files, 'b.xlsx': 'b2' }));
  // It is not pulled in each pass while the service processes one of them, but once that is done.
  service.knobs.listedAs = (path) => (path === 'b.xlsx' ? { status: { processing: 1, failure: 0 } } : {});
  service.write(repository, 'main', 'a.xlsx', 'a2');
  await mirror.pass();
  service.takeRequests();
  for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
  expect(service.takeDownloads()).toStrictEqual([]);
  service.knobs.listedAs = null;
  expect(await mirror.results()).toMatchObject({ 'Plan/HEAD': { reason: 'processing-finished' } });
});

describe('a deleted branch', () => {
  it.each([
    ['of an unclear status', { status: 400 }],
    ['from a cache', { status: 404, headers: { age: '600' } }],
  ])('stays after a last answer %s', async (_case, answer) => {
    const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
    service.write(repository, 'dev', 'b.xlsx', 'b');
    await mirror.pass();
    repository.branches.delete('dev');
    await mirror.pass();
    service.fault = (path) => (path.includes('branch=dev') ? { kind: 'status', ...answer } : null);
    expect(await mirror.results()).toMatchObject({ 'Accounting/dev': { code: 'contents.not_found' } });
    expect(await mirror.tree('Accounting/dev')).toStrictEqual(treeOf({ 'b.xlsx': 'b' }));
  });

  it('waits for a lease like a replaced HEAD, even if its repository is renamed then', async () => {
    const { service, mirror, repository } = await startMirrored('Plan', { 'readme.txt': 'r' });
    service.write(repository, 'main', 'a.xlsx', 'a');
    await mirror.pass();
    service.renameRepository(repository, 'Renamed');
    const lease = await takeLease(mirror);
    const { results } = await mirror.pass();
    expect(results.map(({ outcome }) => outcome.kind)).toStrictEqual(['held', 'held']);
    await endLease(mirror, lease);
    await mirror.exactPass();
  });
});
