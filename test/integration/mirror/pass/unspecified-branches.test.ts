import { describe, expect, it } from 'vitest';

import { acquireLease, releaseLease } from '../../../../src/mirror/store/leases.ts';
import { startPair, treeOf } from '../../../support/mirror-harness.ts';

describe('one row a branch, or one row in all', () => {
  it('keeps a branch if all its workbooks are now shown on other branches', async () => {
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

  it('finds changes hidden by one row in all by the full check', async () => {
    const { service, mirror } = await startPair({ rows: 'latest-only' });
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a1', 'b.xlsx': 'b1' });
    service.fork(repository, 'main', 'dev');
    service.write(repository, 'dev', 'b.xlsx', 'b2');
    await mirror.pass();
    service.write(repository, 'dev', 'new.xlsx', 'n1');
    service.write(repository, 'main', 'new.xlsx', 'n2');
    await mirror.pass({ aheadMs: 25 * 3_600_000 });
    await mirror.expectExact();
  });
});

describe('the branches that are mirrored', () => {
  it('are the branches of versions, with any names', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'main' });
    service.write(repository, 'feature/x y', 'a.xlsx', 'feature');
    service.write(repository, 'ünï', 'a.xlsx', 'uni');
    await mirror.pass();
    await mirror.expectExact();
    expect(await mirror.targets()).toContain('Accounting/feature%2Fx y');
  });

  it('replace HEAD as soon as they are known, and HEAD goes to the history', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'readme.md': 'r' });
    await mirror.pass();
    expect(await mirror.targets()).toStrictEqual(['Accounting/HEAD']);
    service.write(repository, 'main', 'a.xlsx', 'a');
    for (let pass = 0; pass < 2; pass += 1) {
      await mirror.pass();
      expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ 'readme.md': 'r', 'a.xlsx': 'a' }));
    }
    await mirror.expectExact();
    const history = [...(await mirror.files('history/Accounting/HEAD')).values()].map(String);
    expect(history).toContain('r');
  });
});

describe('a deleted branch', () => {
  it('is retired only after the set number of complete answers', async () => {
    const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '3' });
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a' });
    service.write(repository, 'dev', 'b.xlsx', 'b');
    await mirror.pass();
    repository.branches.delete('dev');
    for (let pass = 1; pass < 3; pass += 1) {
      const report = await mirror.pass();
      expect(report.exitCode).toBe(0);
      expect(await mirror.tree('Accounting/dev')).toStrictEqual(treeOf({ 'b.xlsx': 'b' }));
    }
    await mirror.pass();
    await mirror.expectExact();
    const history = await mirror.files('history/Accounting/dev');
    expect([...history.values()].map(String)).toContain('b');
    expect([...history.keys()].filter((path) => path.endsWith('.json'))).toHaveLength(1);
    expect(mirror.eventsOf('target.retired')).toMatchObject([{ reason: 'branch-gone' }]);
  });

  it('waits for a lease like a replaced HEAD, even if its repository is renamed then', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Plan', { 'readme.txt': 'r' });
    await mirror.pass();
    service.write(repository, 'main', 'a.xlsx', 'a');
    await mirror.pass();
    service.renameRepository(repository, 'Renamed');
    const { layout, native } = mirror.context.store;
    const request = { holder: 'a backup', durationMs: 60_000, signal: AbortSignal.timeout(20_000) };
    const lease = await acquireLease(layout, native, request, Date.now);
    const { results } = await mirror.pass();
    expect(results.map(({ outcome }) => outcome.kind)).toStrictEqual(['held', 'held']);
    await releaseLease(layout, lease.id);
    await mirror.pass();
    await mirror.expectExact();
  });

  it('stays as long as the list of workbooks still names it', async () => {
    const { service, mirror } = await startPair();
    service.addRepository('Accounting', { 'a.xlsx': 'a' });
    await mirror.pass();
    service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 404 } : null);
    for (let pass = 0; pass < 4; pass += 1) {
      const results = await mirror.results({ aheadMs: (pass + 1) * 25 * 3_600_000 });
      expect(results['Accounting/main']).toMatchObject({ code: 'contents.not_found' });
    }
    expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ 'a.xlsx': 'a' }));
  });

  it('is retired, too, if the router answers other forms of reference with a page', async () => {
    const { service, mirror } = await startPair({
      references: new Set(['id']),
      unacceptedReference: 'html-200',
    });
    const repository = service.addRepository('git.example.com/org/plan.git', { 'a.xlsx': 'a' });
    service.write(repository, 'dev', 'b.xlsx', 'b');
    await mirror.pass();
    repository.branches.delete('dev');
    for (let pass = 0; pass < 3; pass += 1) await mirror.pass();
    await mirror.expectExact();
  });
});
