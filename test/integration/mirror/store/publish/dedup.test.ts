import { execFileSync } from 'node:child_process';
import { constants, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { chmod, lstat, mkdir, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { type FakeService } from '../../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../../support/mirror-harness.ts';

/** Whether files are cloned here (ioctl_ficlone(2)), so that none is a hard link of another. */
const areCloned = ((): boolean => {
  const folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-test-'));
  try {
    writeFileSync(join(folder, 'one'), 'x');
    copyFileSync(join(folder, 'one'), join(folder, 'other'), constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true });
  }
})();

const DAY_MS = 24 * 3_600_000;
const LARGE = Buffer.alloc(20_000, 'a workbook of which there are several. ');

/** A service with a workbook on a branch, mirrored, and then on a second branch, mirrored too. */
async function twice(
  settings: HarnessSettings = {},
): Promise<{ service: FakeService; mirror: MirrorHarness }> {
  const { service, mirror } = await startPair({}, { CONTENT: 'all', ...settings });
  const repository = service.addRepository('Plan', { 'a.xlsx': String(LARGE), 'small.txt': 'small' });
  await mirror.pass();
  service.fork(repository, 'main', 'copy');
  await mirror.pass();
  await mirror.expectExact();
  return { service, mirror };
}

function placeOf(mirror: MirrorHarness, path: string): string {
  return join(mirror.directory, 'mirror', path);
}

async function inodesOf(mirror: MirrorHarness, ...paths: readonly string[]): Promise<number[]> {
  return Promise.all(paths.map(async (path) => (await lstat(placeOf(mirror, path))).ino));
}

async function areShared(mirror: MirrorHarness, ...paths: readonly string[]): Promise<boolean> {
  return new Set(await inodesOf(mirror, ...paths)).size === 1;
}

const BOTH = ['Plan/main/a.xlsx', 'Plan/copy/a.xlsx'] as const;

describe.skipIf(areCloned)('a workbook on two branches', () => {
  it('is stored once', async () => {
    const { mirror } = await twice();
    expect(await areShared(mirror, ...BOTH)).toBe(true);
    expect(await areShared(mirror, 'Plan/main/small.txt', 'Plan/copy/small.txt')).toBe(false);
  });

  it.each(['off', 'reflink'])(
    'is stored twice with dedup: %s, where the file system clones nothing',
    async (dedup) => {
      const { mirror } = await twice({ DEDUP: dedup });
      expect(await areShared(mirror, ...BOTH)).toBe(false);
    },
  );

  it('is stored once in another repository as well, after a restart', async () => {
    const { service, mirror } = await twice();
    await mirror.restart();
    const other = service.addRepository('Other', {});
    const [first] = service.repositories;
    const branch = first?.branches.get('main');
    if (branch !== undefined) other.branches.set('main', { files: branch.files, versions: branch.versions });
    await mirror.pass();
    await mirror.expectExact();
    expect(await areShared(mirror, ...BOTH, 'Other/main/a.xlsx')).toBe(true);
  });

  it('is stored for itself on the branch where it changes', async () => {
    const { service, mirror } = await twice();
    const [plan] = service.repositories;
    if (plan !== undefined) service.write(plan, 'copy', 'a.xlsx', `${String(LARGE)} changed`);
    await mirror.pass();
    await mirror.expectExact();
    expect(await areShared(mirror, ...BOTH)).toBe(false);
  });
});

describe.skipIf(areCloned)('what someone does to a shared file', () => {
  const edits: readonly [string, (path: string) => Promise<void>][] = [
    ['is written into it', (path) => writeFile(path, 'other bytes')],
    ['is cut off it', (path) => truncate(path, 100)],
    ['is done to its mode', (path) => chmod(path, 0o600)],
    [
      'leaves its size and time as they were',
      async (path) => {
        const { mtime } = await lstat(path);
        await writeFile(path, Buffer.alloc(LARGE.length, 'x'));
        await utimes(path, mtime, mtime);
      },
    ],
  ];

  it.each(edits)('%s: it is put right in all targets by the full check of one', async (_name, edit) => {
    const { service, mirror } = await twice();
    await edit(placeOf(mirror, BOTH[0]));
    mirror.context.store.drifted.add('Plan/main');
    await mirror.pass();
    expect(mirror.events).toContainEqual(
      expect.objectContaining({ name: 'target.drifted', target: 'Plan/copy' }),
    );
    await mirror.pass();
    await mirror.expectExact(service.expectedTrees());
    await mirror.pass({ aheadMs: DAY_MS * 2 });
    await mirror.expectExact(service.expectedTrees());
  });

  it("is nobody else's where it is its mode, and is put right", async () => {
    const { service, mirror } = await twice({ DEDUP: 'auto' });
    const { mode } = await lstat(placeOf(mirror, BOTH[0]));
    await chmod(placeOf(mirror, BOTH[0]), 0o666);
    mirror.context.store.drifted.add('Plan/main');
    const [plan] = service.repositories;
    if (plan !== undefined) service.fork(plan, 'main', 'third');
    await mirror.pass();
    await mirror.pass({ aheadMs: DAY_MS * 2 });
    for (const path of [...BOTH, 'Plan/third/a.xlsx'])
      expect((await lstat(placeOf(mirror, path))).mode).toBe(mode);
  });

  it.each([
    ['a link', (path: string) => symlink('/etc/hostname', path)],
    ['a pipe', async (path: string) => void execFileSync('mkfifo', [path])],
    ['a folder', (path: string) => mkdir(path)],
  ])('is no hindrance to another target where %s stands in its place', async (_name, put) => {
    const { service, mirror } = await twice();
    for (const path of BOTH) {
      await rm(placeOf(mirror, path));
      await put(placeOf(mirror, path));
    }
    const [plan] = service.repositories;
    if (plan !== undefined) service.fork(plan, 'main', 'third');
    expect((await mirror.pass()).exitCode).toBe(0);
    expect((await mirror.tree('Plan/third')).get('a.xlsx')).toStrictEqual(LARGE);
  });

  it('is told to all that have it, also where two files should hold the same bytes', async () => {
    const { service, mirror } = await startPair({}, { CONTENT: 'all' });
    const plan = service.addRepository('Plan', {
      'a.xlsx': String(LARGE),
      'b.xlsx': `${String(LARGE)} other`,
    });
    await mirror.pass();
    service.fork(plan, 'main', 'copy');
    await mirror.pass();
    for (const name of ['a.xlsx', 'b.xlsx']) await writeFile(placeOf(mirror, `Plan/main/${name}`), 'edited');
    mirror.context.store.drifted.add('Plan/main');
    await mirror.pass();
    await mirror.pass();
    await mirror.expectExact();
  });

  it('never makes its way into a third target', async () => {
    const { service, mirror } = await twice();
    const path = placeOf(mirror, BOTH[0]);
    const { mtime } = await lstat(path);
    await writeFile(path, Buffer.alloc(LARGE.length, 'x'));
    await utimes(path, mtime, mtime);
    const [plan] = service.repositories;
    if (plan !== undefined) service.fork(plan, 'main', 'third');
    await mirror.pass();
    expect((await mirror.tree('Plan/third')).get('a.xlsx')).toStrictEqual(LARGE);
  });
});

it('a large file that did not change is left as it is by the full check', async () => {
  const { service, mirror } = await startPair({}, { CONTENT: 'all' });
  service.addRepository('Plan', { 'a.bin': 'x'.repeat(9 * 1024 * 1024), 'small.txt': 'small' });
  await mirror.pass();
  const stamps = await mirror.stamps();
  for (const days of [2, 4]) {
    const { summary } = await mirror.pass({ aheadMs: days * DAY_MS });
    expect(summary.changed).toBe(0);
  }
  expect(await mirror.stamps()).toStrictEqual(stamps);
});
