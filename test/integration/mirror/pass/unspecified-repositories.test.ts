import { cp } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startMirrored, startPair, treeOf } from '../../../support/mirror-harness.ts';

describe('a repository that is renamed', () => {
  it('moves with its files and is not pulled again', async () => {
    const { service, mirror } = await startPair();
    const files = { 'a.xlsx': 'a', 'b/c.xlsx': 'c' };
    const repository = service.addRepository('git.example.com/org/plan.git', files);
    service.addRepository('git.example.com/org/stays.git', { 'a.xlsx': 's' });
    await mirror.pass();
    const before = await mirror.stamps();
    service.takeRequests();
    service.renameRepository(repository, 'git.example.org/new/forecast.git');
    await mirror.pass();
    expect(service.takeDownloads()).toStrictEqual([]);
    await mirror.expectExact();
    const after = await mirror.stamps();
    for (const path of Object.keys(files)) {
      const inode = before[`git.example.com/org/plan.git/main/${path}`]?.split(' ')[0];
      expect(after[`git.example.org/new/forecast.git/main/${path}`]?.split(' ')[0]).toBe(inode);
    }
    const [file] = (await mirror.manifest('git.example.org/new/forecast.git/main')).files;
    expect(file?.workbook?.id).toBe('git.example.org/new/forecast.git/a.xlsx');
    expect(mirror.eventsOf('target.moved')).toHaveLength(1);
    expect(service.credentialFaults()).toStrictEqual([]);
  });

  it('moves although it fails to be pulled at the same time', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
    service.renameRepository(repository, 'Bookkeeping');
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.fault = (path) => (path.includes('/contents') ? { kind: 'json' } : null);
    await mirror.pass();
    await mirror.expectExact({ 'Bookkeeping/main': treeOf({ 'a.xlsx': 'a' }) });
    service.fault = null;
    await mirror.exactPass();
  });

  it('moves below and above its old path', async () => {
    const { service, mirror, repository } = await startMirrored('git.example.com/org', { 'a.xlsx': 'a' });
    service.renameRepository(repository, 'git.example.com/org/sub/plan.git');
    await mirror.exactPass();
    service.renameRepository(repository, 'git.example.com/org');
    await mirror.exactPass();
    expect(mirror.eventsOf('target.moved')).toHaveLength(2);
  });

  it('keeps its contents apart from those of another with which it swaps names', async () => {
    const { service, mirror } = await startPair();
    const one = service.addRepository('One', { 'a.xlsx': '1' });
    const two = service.addRepository('Two', { 'a.xlsx': '2' });
    await mirror.pass();
    service.renameRepository(one, 'Two');
    service.renameRepository(two, 'One');
    for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
    const byRepository = await Promise.all(
      (await mirror.targets()).map(async (target) => {
        const { repository } = await mirror.manifest(target);
        const text = String((await mirror.tree(target)).get('a.xlsx'));
        return `${repository.full_name} ${repository.id} ${text}`;
      }),
    );
    expect(byRepository.sort()).toStrictEqual([`One ${two.id} 2`, `Two ${one.id} 1`]);
  });
});

it.each(['Acc-old', 'Bcc'])(
  'a second tree of a target never takes the place of the original, and goes to the history (%s)',
  async (copy) => {
    const { mirror } = await startMirrored('B', { 'plan.xlsx': 'one' });
    for (const folder of ['mirror', 'manifests']) {
      const from = join(mirror.directory, folder, 'B');
      await cp(from, join(mirror.directory, folder, copy), { recursive: true, preserveTimestamps: true });
    }
    const before = await mirror.stamps();
    expect((await mirror.exactPass()).exitCode).toBe(0);
    const after = await mirror.stamps();
    expect(after['B/main/plan.xlsx']).toBe(before['B/main/plan.xlsx']);
    expect(mirror.eventsOf('target.retired')).toMatchObject([
      { target: `${copy}/main`, reason: 'duplicate' },
    ]);
    expect((await mirror.files('history')).size).toBe(2);
    expect((await mirror.pass()).summary).toMatchObject({ pulled: 0 });
  },
);

it('an installation with only /repositories is mirrored, and is asked for /repos once', async () => {
  const { service, mirror } = await startPair({ repositoriesPath: '/repositories' });
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
  await mirror.exactPass();
  expect(service.takeRequests().slice(0, 2)).toEqual(['GET /api/repos', 'GET /api/repositories']);
  service.write(repository, 'main', 'b.xlsx', 'b2');
  await mirror.exactPass();
  expect(service.takeRequests().filter((request) => request.startsWith('GET /api/repos/'))).toEqual([]);
});

it('an installation without a list of repositories ends the pass, and is asked by both names each time', async () => {
  const { service, mirror } = await startPair();
  service.fault = () => ({ kind: 'status', status: 404 });
  for (let pass = 0; pass < 2; pass += 1) {
    expect(await mirror.failure()).toMatchObject({ code: 'service.not_found' });
    expect(service.takeRequests()).toEqual(['GET /api/repos', 'GET /api/repositories']);
  }
});

it('a repository that waits for the place of one that was deleted is no damaged one', async () => {
  const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
  service.removeRepository(repository);
  const { id } = service.addRepository('Accounting', { 'a.xlsx': 'of another' });
  await mirror.pass();
  expect((await mirror.context.state.records()).get(`${id}\nmain`)?.tree).toBeNull();
});
