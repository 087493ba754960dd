import { readApprovals } from '../../../../src/mirror/store/documents.ts';
import { cp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { listHistory } from '../../../../src/cli/history/history.ts';
import { restoreHistory } from '../../../../src/cli/history/restore.ts';
import { readHistory } from '../../../../src/mirror/store/history/history.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import type { FakeRepository, FakeService } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { approveHere } from '../../../support/tasks.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const GUARDED = { GUARD_TARGETS: '20%', GUARD_FILES: '50%' };

/** The targets that left the mirror, and who approved each. */
async function approversIn({ diskSettings }: MirrorHarness): Promise<unknown> {
  const kept = await listHistory(diskSettings, null);
  return kept.map(({ target, approval }) => [target, approval?.approvedBy]);
}

function sheets(count: number): Record<string, string> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`sheet-${index}.xlsx`, `bytes ${index}`]),
  );
}

/** Adds five repositories. @returns the first three */
function addRepositories(service: FakeService): [FakeRepository, FakeRepository, FakeRepository] {
  const [a, b, c] = ['A', 'B', 'C', 'D', 'E'].map((name) => service.addRepository(name, sheets(1)));
  if (a === undefined || b === undefined || c === undefined) throw new Error('no repositories');
  return [a, b, c];
}

describe('a pass with too many deleted targets', () => {
  it('retires none, reports it, does the rest, and retires approved ones', async () => {
    const { service, mirror } = await startPair({}, GUARDED);
    const [a, b, c] = addRepositories(service);
    await mirror.pass();
    for (const each of [a, b]) service.removeRepository(each);
    service.write(c, 'main', 'new.xlsx', 'new');
    await mirror.pass();
    const report = await mirror.pass();
    expect(report.exitCode).toBe(1);
    expect(mirror.eventsOf('deletion.held')).toMatchObject([
      { target: 'A/main', subject: 'target', deletions: 2, of: 5 },
      { target: 'B/main', subject: 'target', deletions: 2, of: 5 },
    ]);
    expect(await mirror.targets()).toEqual(['A/main', 'B/main', 'C/main', 'D/main', 'E/main']);
    expect((await mirror.tree('C/main')).get('new.xlsx')?.toString()).toBe('new');
    await mirror.pass();
    expect(mirror.eventsOf('deletion.held')).toHaveLength(2);

    expect(await approveHere(mirror.diskSettings, ['C/main'])).toEqual([]);
    expect(await approveHere(mirror.diskSettings, ['A/main'])).toEqual(['A/main']);
    const { approvals, history } = layoutOf(mirror.directory);
    const copy = await temporaryFolder();
    await cp(approvals, copy, { recursive: true });
    await writeFile(join(history, 'A'), 'in the way');
    expect((await mirror.pass()).results.map(({ outcome }) => outcome.kind)).toContain('failed');
    await rm(join(history, 'A'));
    for (let pass = 0; pass < 2; pass += 1) expect((await mirror.pass()).exitCode).toBe(1);
    expect(mirror.eventsOf('target.retired').map(({ target }) => target)).toEqual(['A/main']);
    await approveHere(mirror.diskSettings, null);
    // An approval without its target is over, too.
    await cp(copy, approvals, { recursive: true });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect(mirror.eventsOf('target.retired').map(({ target }) => target)).toEqual(['A/main', 'B/main']);
    await mirror.expectExact();
    expect(await readApprovals(mirror.context.store.layout)).toEqual(new Map());
    expect(await approversIn(mirror)).toEqual([
      ['A/main', 'anna'],
      ['B/main', 'anna'],
      ['C/main', undefined],
    ]);
  });

  it('keeps an approval until the new repository of that name is there', async () => {
    const { service, mirror } = await startPair({}, GUARDED);
    const [a, b] = addRepositories(service);
    await mirror.pass();
    for (const each of [a, b]) service.removeRepository(each);
    service.addRepository('A', { 'new.xlsx': 'new' });
    for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
    expect(mirror.eventsOf('deletion.held').map(({ target }) => target)).toEqual(['A/main', 'B/main']);
    await approveHere(mirror.diskSettings, null);
    service.fault = (path) => (/contents/.test(path) ? { kind: 'status', status: 500 } : null);
    expect((await mirror.pass()).exitCode).toBe(1);
    for (const event of ['deletion.approved', 'target.retired'] as const)
      expect(mirror.eventsOf(event).map(({ target }) => target)).toEqual(['B/main']);
    expect([...(await readApprovals(mirror.context.store.layout)).values()]).toMatchObject([
      { target: { repositoryId: a.id } },
    ]);
    for (let pass = 0; pass < 2; pass += 1) await mirror.pass({ trigger: 'schedule' });
    expect(String((await mirror.tree('A/main')).get('sheet-0.xlsx'))).toBe('bytes 0');
    service.fault = null;
    expect((await mirror.exactPass({ retries: 'all' })).exitCode).toBe(0);
    expect(await readApprovals(mirror.context.store.layout)).toEqual(new Map());
  });

  it('counts deleted branches together with repositories', async () => {
    const { service, mirror } = await startPair({}, GUARDED);
    const kept = service.addRepository('Kept', sheets(1));
    for (const branch of ['one', 'two', 'three']) service.write(kept, branch, 'plan.xlsx', branch);
    const gone = service.addRepository('Gone', sheets(1));
    await mirror.pass();
    kept.branches.delete('one');
    service.removeRepository(gone);
    await mirror.pass();
    expect(mirror.eventsOf('target.missing')).toHaveLength(2);
    await mirror.pass();
    expect(mirror.eventsOf('deletion.held').map(({ target, deletions }) => [target, deletions])).toEqual([
      ['Kept/one', 2],
      ['Gone/main', 2],
    ]);
    expect(await mirror.targets()).toHaveLength(5);
    await approveHere(mirror.diskSettings, null);
    await mirror.exactPass();
  });
});

describe('a version that lacks too many files', () => {
  it('is held without a download at every pass, published when it is approved, and kept in the history as it was', async () => {
    const { service, mirror } = await startPair({}, GUARDED);
    const repository = service.addRepository('Accounting', sheets(10));
    await mirror.pass();
    const gone = Object.keys(sheets(6));
    for (const path of gone) service.remove(repository, 'main', path);
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(mirror.eventsOf('deletion.held')).toMatchObject([
      { subject: 'files', deletions: 6, of: 10, first: gone },
    ]);
    const heldNow = async (): Promise<readonly string[] | undefined> => {
      const [record] = (await mirror.context.state.records()).values();
      return record?.held?.first;
    };
    expect(await heldNow()).toEqual(gone);
    expect(await mirror.tree('Accounting/main')).toHaveProperty('size', 10);
    expect(await readdir(join(mirror.directory, '.workbook-mirror/staging'))).toEqual([]);
    service.takeRequests();
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(service.takeDownloads()).toEqual([]);

    await approveHere(mirror.diskSettings, ['Accounting/main']);
    expect((await mirror.exactPass()).exitCode).toBe(0);
    expect(mirror.eventsOf('deletion.approved')).toMatchObject([{ target: 'Accounting/main' }]);
    expect(await readApprovals(mirror.context.store.layout)).toEqual(new Map());
    expect(await heldNow()).toBeUndefined();

    const [kept, ...others] = await readHistory(layoutOf(mirror.directory));
    expect(others).toEqual([]);
    expect(kept).toMatchObject({ path: 'Accounting/main', kind: 'retired' });
    expect(await readdir(kept?.tree ?? '')).toHaveLength(6);
    expect(await approversIn(mirror)).toEqual([['Accounting/main', 'anna']]);
    const to = join(await temporaryFolder(), 'restored');
    await restoreHistory(mirror.diskSettings, { target: 'Accounting/main', atMs: null, to });
    expect(await readdir(to)).toHaveLength(10);
  });

  it('holds a well-formed empty archive', async () => {
    const { service, mirror } = await startPair({ emptyRepository: 'empty-archive', v1: '404' }, GUARDED);
    const repository = service.addRepository('Accounting', sheets(10));
    await mirror.pass();
    for (const path of Object.keys(sheets(10))) service.remove(repository, 'main', path);
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(await mirror.tree('Accounting/HEAD')).toHaveProperty('size', 10);
  });
});
