import { unfinishedPublishes } from '../../../../../src/mirror/store/publish/journal.ts';
import { mkdir, open, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { restoreHistory } from '../../../../../src/cli/history/restore.ts';
import { bindNativeCalls } from '../../../../../src/lib/native/file-calls.ts';
import { readHistory } from '../../../../../src/mirror/store/history/history.ts';
import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import {
  acquireLease,
  holdsAt,
  type Lease,
  leasesInForce,
  LONGEST_LEASE_MS,
  sweepLeases,
  watchLease,
} from '../../../../../src/mirror/store/leases.ts';
import { leaveJournal } from '../../../../support/journals.ts';
import { endLease, takeLease } from '../../../../support/leases.ts';
import { type MirrorHarness, startMirrored, startPair, treeOf } from '../../../../support/mirror-harness.ts';
import { stampsOf } from '../../../../support/stamps.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

const ID = '0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e';

function leasesOf({ directory }: MirrorHarness): Promise<readonly Lease[]> {
  return leasesInForce(layoutOf(directory), Date.now());
}

describe('a pass while a lease holds', () => {
  it('publishes, moves, retires, prunes, removes and downloads nothing, verifies unchanged targets, and does not fail', async () => {
    const { service, mirror } = await startPair(
      { headers: { date: '' } },
      { RETIRE_AFTER_PASSES: '1', HISTORY_RETIRED: '1h' },
    );
    const changed = service.addRepository('Changed', { 'a.xlsx': '1' });
    const renamed = service.addRepository('Renamed', { 'a.xlsx': '1' });
    const gone = service.addRepository('Gone', { 'a.xlsx': '1' });
    const longGone = service.addRepository('LongGone', { 'a.xlsx': '1' });
    service.addRepository('Same', { 'a.xlsx': '1' });
    await mirror.pass();
    service.removeRepository(longGone);
    await mirror.pass();
    const layout = layoutOf(mirror.directory);
    expect((await readHistory(layout)).map(({ path }) => path)).toEqual(['LongGone/main']);
    const before = await stampsOf(mirror.directory);
    const lease = await takeLease(mirror, 4 * 3_600_000);
    service.write(changed, 'main', 'a.xlsx', '2');
    service.renameRepository(renamed, 'Other');
    service.removeRepository(gone);
    service.addRepository('New', { 'a.xlsx': '1' });
    service.takeRequests();
    expect(await mirror.results({ aheadMs: 2 * 3_600_000 })).toEqual({
      'Changed/main': { action: 'hold', reason: 'lease', outcome: 'held' },
      'Other/main': { action: 'hold', reason: 'lease', outcome: 'held' },
      'Gone/main': { action: 'hold', reason: 'lease', outcome: 'held' },
      'New/main': { action: 'hold', reason: 'lease', outcome: 'held' },
      'Same/main': { action: 'keep', reason: 'unchanged', outcome: 'kept' },
    });
    const report = await mirror.pass();
    expect(report.exitCode).toBe(1);
    expect(report.summary).toMatchObject({ failed: 0, held: 4, downloadedBytes: 0 });
    expect(service.takeRequests().filter((each) => each.includes('/contents'))).toEqual([]);
    const after = await stampsOf(mirror.directory);
    const visible = (stamps: Record<string, string>): [string, string][] =>
      Object.entries(stamps).filter(([path]) => !path.startsWith('.workbook-mirror'));
    expect(visible(after)).toEqual(visible(before));
    expect(mirror.eventsOf('lease.waited')).toEqual([
      { name: 'lease.waited', holder: 'a test', untilMs: lease.untilMs },
    ]);
    expect(mirror.eventsOf('target.held')).toEqual([]);
    const failures = [...(await mirror.context.state.records()).values()].map(({ failure }) => failure);
    expect(failures.every((failure) => failure === null)).toBe(true);
    await endLease(mirror, lease);
    expect((await mirror.exactPass({ trigger: 'lease', aheadMs: 2 * 3_600_000 })).exitCode).toBe(0);
    expect(mirror.eventsOf('target.retired').map(({ target }) => target)).toEqual([
      'LongGone/main',
      'Gone/main',
    ]);
    const left = await readHistory(layout);
    expect(left.map(({ path, kind }) => [path, kind])).toEqual([['Changed/main', 'replaced']]);
  });

  it('still makes full comparisons, and holds the targets that differ', async () => {
    const { service, mirror } = await startPair({ v1: '404' });
    const repository = service.addRepository('Accounting', { 'a.xlsx': '1' });
    service.addRepository('Same', { 'a.xlsx': '1' });
    await mirror.pass();
    const lease = await takeLease(mirror);
    service.write(repository, 'main', 'a.xlsx', '2');
    expect(await mirror.results()).toMatchObject({
      'Accounting/HEAD': { reason: 'lease', outcome: 'held' },
      'Same/HEAD': { outcome: 'pulled' },
    });
    expect(await mirror.tree('Accounting/HEAD')).toEqual(treeOf({ 'a.xlsx': '1' }));
    expect(await readdir(join(mirror.directory, '.workbook-mirror/staging'))).toEqual([]);
    await endLease(mirror, lease);
    await mirror.exactPass();
  });

  it('does not forget that a repository was missing before, nor counts the pass', async () => {
    const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '3' });
    const gone = service.addRepository('Gone', { 'a.xlsx': '1' });
    service.addRepository('Same', { 'a.xlsx': '1' });
    await mirror.pass();
    service.removeRepository(gone);
    await mirror.pass();
    await mirror.pass();
    const lease = await takeLease(mirror);
    await mirror.pass();
    await mirror.pass();
    expect(await mirror.targets()).toContain('Gone/main');
    await endLease(mirror, lease);
    expect(await mirror.results()).toMatchObject({ 'Gone/main': { outcome: 'retired' } });
  });

  it('waits for the last of several leases', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': '1' });
    const leases = [
      await takeLease(mirror, 30_000),
      await takeLease(mirror, 90_000),
      await takeLease(mirror, 60_000),
    ];
    service.write(repository, 'main', 'a.xlsx', '2');
    for (const lease of leases) {
      expect(await mirror.results()).toMatchObject({ 'Accounting/main': { reason: 'lease' } });
      await endLease(mirror, lease);
    }
    expect(mirror.eventsOf('lease.waited')[0]?.untilMs).toBe(leases[1]?.untilMs);
    expect((await mirror.exactPass()).exitCode).toBe(0);
  });
});

describe('a lease that is taken during publishing', () => {
  it('is not granted, and leaves nothing behind, if its wait is aborted', async () => {
    const { mirror } = await startPair();
    const layout = layoutOf(mirror.directory);
    const native = bindNativeCalls();
    const publisher = await open(layout.gate, 'r+');
    onTestFinished(() => publisher.close());
    expect(native.tryLock(publisher.fd)).toBe(true);
    const abort = new AbortController();
    const taking = acquireLease(
      layout,
      native,
      { holder: 'x', durationMs: 1000, signal: abort.signal },
      Date.now,
    );
    const refused = expect(taking).rejects.toMatchObject({ name: 'AbortError' });
    while ((await leasesOf(mirror)).length === 0) await sleep(5);
    abort.abort();
    await refused;
    expect(await readdir(layout.leases)).toEqual([]);
  });

  it('reports interrupted publishes of all instances that share the directory', async () => {
    const { mirror } = await startPair();
    await mirror.pass();
    const layout = layoutOf(mirror.directory);
    const stage = join(layoutOf(mirror.directory, { index: 2 }).staging, 'left');
    await leaveJournal(layout.root, stage, ['Other/main'], []);
    for (const shard of [undefined, { index: 1 }, { index: 2 }]) {
      const { targets, isComplete } = await unfinishedPublishes(layoutOf(mirror.directory, shard));
      expect({ targets: [...targets], isComplete }).toEqual({ targets: ['Other/main'], isComplete: true });
    }
    // A folder that cannot be read hides its own publishes only.
    const hidden = layoutOf(mirror.directory, { index: 3 }).staging;
    await mkdir(dirname(hidden), { recursive: true });
    await symlink(hidden, hidden);
    const { targets, isComplete } = await unfinishedPublishes(layout);
    expect({ targets: [...targets], isComplete }).toEqual({ targets: ['Other/main'], isComplete: false });
    await rm(hidden);
  });
});

it('the commands that publish restore nothing into the mirror while a lease holds', async () => {
  const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
  const gone = service.addRepository('Gone', { 'a.xlsx': '1' });
  service.addRepository('Same', { 'a.xlsx': '1' });
  await mirror.pass();
  service.removeRepository(gone);
  await mirror.pass();
  await mirror.whileClosed(async () => {
    const restore = async (): Promise<unknown> =>
      restoreHistory(mirror.diskSettings, { target: 'Gone/main', atMs: null, to: null });
    const lease = await takeLease(mirror);
    await expect(restore()).rejects.toMatchObject({ code: 'publish.leased' });
    await endLease(mirror, lease);
    await restore();
  });
  expect(await mirror.targets()).toContain('Gone/main');
});

describe('leases on disk', () => {
  it('hold at most for the longest lease, not by a wrong clock, but tolerate one set back a little', () => {
    const lease = { id: ID, holder: 'x', takenAtMs: 1e12, untilMs: 1e12 + 60_000 };
    const heldAt = (nowMs: number, each: Lease = lease): boolean => holdsAt(each, nowMs);
    expect(heldAt(lease.takenAtMs)).toBe(true);
    expect(heldAt(lease.untilMs - 1)).toBe(true);
    expect(heldAt(lease.untilMs)).toBe(false);
    expect(heldAt(lease.takenAtMs - 60_000)).toBe(true);
    expect(heldAt(lease.takenAtMs - 3_600_000)).toBe(false);
    expect(heldAt(lease.takenAtMs, { ...lease, untilMs: lease.takenAtMs + LONGEST_LEASE_MS })).toBe(true);
    expect(heldAt(lease.takenAtMs, { ...lease, untilMs: lease.takenAtMs + LONGEST_LEASE_MS + 1 })).toBe(
      false,
    );
  });

  it('that are malformed hold at most as long as any lease, and are then removed', async () => {
    const { service, mirror, repository: plan } = await startMirrored('Plan', { 'a.xlsx': '1' });
    const layout = layoutOf(mirror.directory);
    const nowMs = Date.now();
    const good = { id: ID, holder: 'x', takenAtMs: nowMs, untilMs: nowMs + 60_000 };
    const texts = ['', '{', '{}', JSON.stringify({ ...good, untilMs: 'x' }), JSON.stringify(good)];
    for (const [index, text] of texts.entries()) await writeFile(join(layout.leases, `${index}.json`), text);
    await writeFile(join(layout.leases, 'half'), '{');
    const names = ['0', '1', '2', '3', '4'];
    expect((await leasesInForce(layout, Date.now())).map(({ id }) => id).sort()).toEqual(names);
    service.write(plan, 'main', 'a.xlsx', '2');
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { reason: 'lease', outcome: 'held' } });
    await sweepLeases(layout, nowMs);
    expect(await readdir(layout.leases)).toHaveLength(texts.length + 1);
    const old = new Date(nowMs - LONGEST_LEASE_MS - 1000);
    for (const name of await readdir(layout.leases)) await utimes(join(layout.leases, name), old, old);
    await writeFile(join(layout.leases, `${ID}.json`), JSON.stringify({ ...good, untilMs: nowMs - 1 }));
    await mirror.pass();
    expect(await readdir(layout.leases)).toEqual([]);
    await mirror.expectExact();
  });

  it('can be read by every publisher, for any umask of the holder', async () => {
    const { mirror } = await startPair();
    const before = process.umask(0o077);
    onTestFinished(() => {
      process.umask(before);
    });
    const { id } = await takeLease(mirror);
    const file = await open(join(layoutOf(mirror.directory).leases, `${id}.json`));
    const { mode } = await file.stat();
    await file.close();
    expect(mode & 0o777).toBe(0o644);
  });

  it('are refused in a directory that was never opened by a program that respects them', async () => {
    const directory = await temporaryFolder();
    await expect(takeLease({ directory })).rejects.toMatchObject({ code: 'directory.unusable' });
    expect(await readdir(directory)).toEqual([]);
  });

  it('are reported as lost as soon as another process releases them, or they expire', async () => {
    const { mirror } = await startPair();
    const layout = layoutOf(mirror.directory);
    const over = new AbortController();
    const [one, other, held] = [
      await takeLease(mirror),
      await takeLease(mirror, 1500),
      await takeLease(mirror),
    ];
    const watches = [one, other, held].map((lease) => watchLease(layout, lease, Date.now, over.signal));
    await endLease(mirror, one);
    expect(await watches[0]).toBe('lost');
    expect(await watches[1]).toBe('lost');
    over.abort();
    expect(await watches[2]).toBe('held');
    expect(await readFile(join(layout.leases, `${held.id}.json`), 'utf8')).toContain('a test');
  });
});
