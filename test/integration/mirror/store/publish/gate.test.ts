import { publishedManifest } from '../../../../../src/mirror/store/inventory.ts';
import {
  discardStage,
  recover,
  unfinishedPublishes,
} from '../../../../../src/mirror/store/publish/journal.ts';
import { moveTree, publishStage, retireTree } from '../../../../../src/mirror/store/publish/publish.ts';
import type { ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { openStage, showStage, type Stage } from '../../../../../src/mirror/store/publish/stage.ts';
import {
  chmod,
  chown,
  cp,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { acquireLease, createGate, GateBlockedError } from '../../../../../src/mirror/store/leases.ts';
import { bindNativeCalls } from '../../../../../src/lib/native/file-calls.ts';
import { readHistory } from '../../../../../src/mirror/store/history/history.ts';
import { type DirectoryLayout, layoutOf } from '../../../../../src/mirror/store/layout.ts';
import { manifestWith } from '../../../../support/builders.ts';
import { leaveJournal } from '../../../../support/journals.ts';
import { endLease, takeLease } from '../../../../support/leases.ts';
import { type MirrorHarness, startMirrored, startPair } from '../../../../support/mirror-harness.ts';
import { openTestStore, stageText } from '../../../../support/published.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

const NEVER = new AbortController().signal;
const native = bindNativeCalls();

/** Holds the lock on publishing, like a program that hangs. */
async function block({ gate }: DirectoryLayout): Promise<FileHandle> {
  const handle = await open(gate, 'r+');
  onTestFinished(() => handle.close());
  expect(native.tryLock(handle.fd)).toBe(true);
  return handle;
}

/** The state after a kill just after the tree of a renamed repository was moved. */
async function leaveHalfMove({ directory }: MirrorHarness, from: string, to: string): Promise<void> {
  const text = await readFile(join(directory, 'manifests', from, 'main.json'), 'utf8');
  const stage = join(layoutOf(directory).staging, 'left');
  await mkdir(join(stage, 'tree'), { recursive: true });
  await writeFile(join(stage, 'manifest.json'), text.replaceAll(from, to));
  await leaveJournal(
    directory,
    stage,
    [`${from}/main`, `${to}/main`],
    [
      [`mirror/${from}/main`, `mirror/${to}/main`],
      ['stage/manifest.json', `manifests/${to}/main.json`],
      [`manifests/${from}/main.json`, 'stage/removed/manifest.json'],
    ],
  );
  await mkdir(join(directory, 'mirror', to));
  await rename(join(directory, 'mirror', from, 'main'), join(directory, 'mirror', to, 'main'));
}

it('an interrupted move is reported to a lease, protected after it from other publishes, and completed by the next pass', async () => {
  const { service, mirror, repository: plan } = await startMirrored('Old', { 'a.xlsx': '1' });
  const { store } = mirror.context;
  service.renameRepository(plan, 'New');
  await leaveHalfMove(mirror, 'Old', 'New');
  const lease = await takeLease(mirror);
  expect([...(await unfinishedPublishes(store.layout)).targets]).toEqual(['Old/main', 'New/main']);
  expect(await recover(store, NEVER)).toEqual([]);
  expect(await mirror.results()).toMatchObject({ 'New/main': { reason: 'lease', outcome: 'held' } });
  await endLease(mirror, lease);
  const manifest = await publishedManifest(store.layout, 'Old/main');
  if (manifest === null) throw new Error('no manifest');
  const leased = { code: 'publish.leased' };
  await expect(moveTree(store, 'Old/main', 'New/main', manifest, NEVER)).rejects.toMatchObject(leased);
  await expect(retireTree(store, 'New/main', NEVER)).rejects.toMatchObject(leased);
  await mirror.pass();
  expect(mirror.eventsOf('publish.recovered')).toMatchObject([{ target: 'Old/main' }]);
  await mirror.expectExact();
  expect(await readHistory(store.layout)).toEqual([]);
});

it('a duplicate that a lease keeps from leaving does not change the record of the tree that counts', async () => {
  const { mirror } = await startMirrored('Plan', { 'a.xlsx': '1' });
  const { directory } = mirror;
  for (const folder of ['mirror', 'manifests']) {
    await cp(join(directory, folder, 'Plan'), join(directory, folder, 'Old'), {
      recursive: true,
      preserveTimestamps: true,
    });
  }
  await takeLease(mirror);
  const { results, summary } = await mirror.pass();
  expect(summary).toMatchObject({ held: 1, leased: 1 });
  expect(results.map(({ action }) => `${action.path} ${action.reason}`).sort()).toEqual([
    'Old/main lease',
    'Plan/main unchanged',
  ]);
  const records = [...(await mirror.context.state.records()).values()];
  expect(records.map(({ decisions }) => decisions[0]?.reason)).toEqual(['unchanged']);
});

it('the view for the command before publishing changes no published file under a lease taken after its start', async () => {
  const folder = await temporaryFolder();
  const script = join(folder, 'gate.sh');
  const body = 'if grep -q v2 a.xlsx; then touch "$0.seen"; while [ ! -e "$0.go" ]; do sleep 0.02; done; fi';
  await writeFile(script, body);
  const { service, mirror } = await startPair(
    {},
    { HOOKS_BEFORE_PUBLISH: JSON.stringify(['/bin/sh', script]) },
  );
  const repository = service.addRepository('Plan', { 'a.xlsx': 'v1', 'b.xlsx': 'b1' });
  await mirror.pass();
  service.write(repository, 'main', 'a.xlsx', 'v2');
  const pass = mirror.results();
  while (!(await readdir(folder)).includes('gate.sh.seen')) await sleep(10);
  const lease = await takeLease(mirror);
  const before = await mirror.stamps();
  await writeFile(`${script}.go`, '');
  expect(await pass).toMatchObject({ 'Plan/main': { reason: 'lease', outcome: 'held' } });
  expect(await mirror.stamps()).toEqual(before);
  await endLease(mirror, lease);
  expect((await mirror.exactPass()).exitCode).toBe(0);
  expect(await readdir(layoutOf(mirror.directory).staging)).toEqual([]);
  expect((await lstat(join(mirror.directory, 'mirror/Plan/main/b.xlsx'))).nlink).toBe(1);
});

it('the links of a view count as progress', async () => {
  let progress = 0;
  const onProgress = (): void => void (progress += 1);
  const store = await openTestStore(await temporaryFolder(), { onProgress });
  const names = Array.from({ length: 200 }, (_, index) => `folder ${index % 7}/${index}.xlsx`);
  const stageOf = async (paths: readonly string[]): Promise<[Stage, ManifestFile[]]> => {
    const stage = await openStage(store, 'Plan/main');
    onTestFinished(() => discardStage(store, stage));
    const staged: ManifestFile[] = [];
    for (const name of paths) staged.push(await stageText(stage, name, 'x', 1000));
    return [stage, staged];
  };
  const [first, files] = await stageOf(names);
  await publishStage(store, first, { manifest: manifestWith({ files }), before: null });
  const [stage, added] = await stageOf(['new.xlsx']);
  progress = 0;
  let found: string[] = [];
  const look = async (view: string): Promise<void> => {
    expect(progress).toBeGreaterThan(0);
    found = await readdir(view, { recursive: true });
  };
  expect(await showStage(store, stage, [...files, ...added], look, NEVER)).toBe(true);
  expect(found.filter((name) => name.endsWith('.xlsx')).sort()).toEqual([...names, 'new.xlsx'].sort());
});

async function modeOf(file: string): Promise<number> {
  return (await lstat(file)).mode & 0o777;
}

describe('the lock on publishing', () => {
  it('can be opened only by its user, and by a group as long as it may take leases', async () => {
    const { mirror } = await startPair();
    const { gate, lockFile, leases } = layoutOf(mirror.directory);
    expect([await modeOf(gate), await modeOf(lockFile)]).toEqual([0o600, 0o600]);
    const changes: readonly [() => Promise<void>, number][] = [
      [() => chmod(gate, 0o664), 0o600],
      [() => chmod(leases, 0o770).then(() => chmod(gate, 0o664)), 0o660],
      [() => chmod(leases, 0o750), 0o600],
    ];
    for (const [change, mode] of changes) {
      await mirror.whileClosed(() => chmod(lockFile, 0o644).then(change));
      expect([await modeOf(gate), await modeOf(lockFile)]).toEqual([mode, 0o600]);
    }
  });

  it.runIf(process.getuid?.() === 0)('is closed to groups that may not take leases', async () => {
    const { mirror } = await startPair();
    const { gate, leases } = layoutOf(mirror.directory);
    await chmod(leases, 0o770);
    await chown(gate, 0, 12_345);
    for (const mode of [0o600, 0o640]) {
      await chmod(gate, 0o640);
      await mirror.restart();
      expect(await modeOf(gate)).toBe(mode);
      await chown(leases, 0, 12_345);
    }
  });

  it('is released by each taker of a lease before anything else', async () => {
    const { mirror } = await startPair();
    const layout = layoutOf(mirror.directory);
    const asked: boolean[] = [];
    const watched = {
      ...native,
      tryLock: (fd: number): boolean => {
        const isFree = native.tryLock(fd);
        // Runs as soon as the holder of the lock yields.
        queueMicrotask(() => void isFreeNow().then((free) => asked.push(free)));
        return isFree;
      },
    };
    const other = await open(layout.gate, 'r+');
    onTestFinished(() => other.close());
    const isFreeNow = async (): Promise<boolean> => {
      await Promise.resolve();
      const isFree = native.tryLockShared(other.fd);
      if (isFree) native.unlock(other.fd);
      return isFree;
    };
    await acquireLease(layout, watched, { holder: 'x', durationMs: 60_000, signal: NEVER }, Date.now);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked).not.toContain(false);
  });

  it('is free for a lease even during constant publishing, and none begins after it', async () => {
    const { service, mirror } = await startPair();
    const { store } = mirror.context;
    for (let index = 0; index < 8; index += 1) service.addRepository(`R${index}`, { 'a.xlsx': '1' });
    await mirror.pass();
    const ends: number[] = [];
    const publishAgain = async ({ path }: { path: string }): Promise<unknown> => {
      for (;;) {
        const manifest = await publishedManifest(store.layout, path);
        if (manifest === null) throw new Error(`${path} is not there`);
        const stage = await openStage(store, path);
        try {
          const next = { ...manifest, publishedAtMs: manifest.publishedAtMs + 1 };
          await publishStage(store, stage, { manifest: next, before: manifest });
          ends.push(performance.now());
        } catch (error) {
          return error;
        } finally {
          await discardStage(store, stage);
        }
      }
    };
    const publishing = (await store.inventory.read()).published.map(publishAgain);
    await expect.poll(() => ends.length).toBeGreaterThan(8);
    await takeLease(mirror);
    const grantedAtMs = performance.now();
    for (const ended of await Promise.all(publishing))
      expect(ended).toMatchObject({ code: 'publish.leased' });
    expect(Math.max(...ends)).toBeLessThan(grantedAtMs);
  });

  it('that is never released blocks the recovery after a crash', async () => {
    const { mirror } = await startMirrored('Plan', { 'a.xlsx': '1' }, { PUBLISH: 'rename' });
    const layout = layoutOf(mirror.directory);
    await mirror.whileClosed(async () => {
      const opened = await openTestStore(layout.root, { publish: 'rename' });
      const store = { ...opened, gate: createGate(layout, native, Date.now, 20) };
      const stage = join(layout.staging, 'left');
      await mkdir(join(stage, 'tree'), { recursive: true });
      await writeFile(join(stage, 'tree/b.xlsx'), '2');
      const place = 'mirror/Plan/main/b.xlsx';
      await leaveJournal(layout.root, stage, ['Plan/main'], [['stage/tree/b.xlsx', place]]);
      await rename(join(stage, 'tree/b.xlsx'), join(layout.root, place));
      const blocker = await block(layout);
      expect(await recover(store)).toEqual([]);
      await expect(retireTree(store, 'Plan/main')).rejects.toBeInstanceOf(GateBlockedError);
      native.unlock(blocker.fd);
      await expect(retireTree(store, 'Plan/main')).rejects.toMatchObject({ code: 'disk.failed' });
      expect(await recover(store)).toEqual(['Plan/main']);
      await store.lock.release();
    });
    expect([...(await mirror.tree('Plan/main')).keys()]).toEqual(['a.xlsx', 'b.xlsx']);
  });

  it('is a failure of the disk if the file system has no locks', async () => {
    const { mirror } = await startPair();
    const layout = layoutOf(mirror.directory);
    const refuse = (): never => {
      throw Object.assign(new Error('ENOLCK: flock failed'), { code: 'ENOLCK', syscall: 'flock' });
    };
    const without = { ...native, tryLock: refuse, tryLockShared: refuse };
    const gate = createGate(layout, without, Date.now);
    await expect(gate.pass(() => Promise.resolve())).rejects.toMatchObject({ code: 'disk.failed' });
    const request = { holder: 'x', durationMs: 1000, signal: NEVER };
    await expect(acquireLease(layout, without, request, Date.now)).rejects.toMatchObject({
      code: 'disk.failed',
    });
    expect(await readdir(layout.leases)).toEqual([]);
  });

  it('is not requested if there is nothing to recover', async () => {
    const { mirror } = await startMirrored('Plan', { 'a.xlsx': '1' });
    await block(layoutOf(mirror.directory));
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { action: 'keep' } });
  });

  it('is awaited until the program must end', async () => {
    const { service, mirror } = await startPair();
    service.addRepository('Plan', { 'a.xlsx': '1' });
    await block(layoutOf(mirror.directory));
    const error = await mirror.failure({ signal: AbortSignal.timeout(300) });
    expect(error.code).toBe('pass.abandoned');
  });
});
