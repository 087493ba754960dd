import {
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { RetentionPolicy } from '../../../../../src/mirror/store/disk.ts';
import { readHistory } from '../../../../../src/mirror/store/history/history.ts';
import { publishedManifest } from '../../../../../src/mirror/store/inventory.ts';
import type { Manifest } from '../../../../../src/mirror/store/manifest.ts';
import type { PublishMode } from '../../../../../src/mirror/store/publish/moves.ts';
import { discardStage } from '../../../../../src/mirror/store/publish/journal.ts';
import { moveTree, publishStage, retireTree } from '../../../../../src/mirror/store/publish/publish.ts';
import { openStage } from '../../../../../src/mirror/store/publish/stage.ts';
import { findOldTrees, sweep } from '../../../../../src/mirror/store/publish/sweep.ts';
import { examineTarget } from '../../../../../src/mirror/store/verify/examine.ts';
import {
  type Files,
  manifestOf,
  openTestStore,
  publishFiles,
  textsIn,
  stageText,
} from '../../../../support/published.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

const PATH = 'Accounting/main';
const GRACE_MS = 60_000;
const DAY_MS = 24 * 3_600_000;

const KEPT: RetentionPolicy = { retired: { kind: 'forever' }, replaced: { kind: 'off' } };

type Opened = Awaited<ReturnType<typeof opened>>;

async function opened(
  directory: string,
  publish: PublishMode = 'link',
  retention: RetentionPolicy = KEPT,
  readerGraceMs = GRACE_MS,
) {
  let nowMs = Date.now();
  const now = (): number => nowMs;
  const store = await openTestStore(directory, { publish, readerGraceMs, retention, now });
  return {
    directory,
    store,
    /** Sweeps as if this much later, in milliseconds; by default after the grace for readers. */
    sweepLater: async (afterMs = readerGraceMs + DAY_MS) => {
      nowMs += afterMs;
      await sweep(store, nowMs);
    },
  };
}

function publish({ store }: Opened, files: Files): Promise<string> {
  return publishFiles(store, PATH, files);
}

const placeIn = (directory: string, path = PATH): string => join(directory, 'mirror', path);

/** A mirror that has published the first files, the place of its link, and the tree to which the link leads. */
async function started() {
  const mirror = await opened(await temporaryFolder());
  await publish(mirror, FIRST);
  const place = placeIn(mirror.directory);
  return { ...mirror, place, tree: await realpath(place) };
}

const manifestIn = (directory: string): string => join(directory, 'manifests', `${PATH}.json`);

/** The trees that lie in `trees/`, by their names. */
async function treesIn(directory: string): Promise<string[]> {
  const folders = await readdir(join(directory, 'trees')).catch(() => []);
  const names = await Promise.all(folders.map((folder) => readdir(join(directory, 'trees', folder))));
  return names.flat();
}

async function isWhole({ store }: Opened, path = PATH): Promise<boolean> {
  const options = { depth: 'facts', signal: new AbortController().signal } as const;
  return (await examineTarget(store.layout, path, options))?.differences.length === 0;
}

const FIRST: Files = { 'a.txt': 'one', 'b/c.txt': 'two', 'b/d.txt': 'three' };
const NEXT: Files = { ...FIRST, 'a.txt': 'ONE', 'e/f.txt': 'new' };

describe('publish: link', () => {
  it('makes a relative link to a whole tree', async () => {
    const mirror = await opened(await temporaryFolder());
    expect(await publish(mirror, FIRST)).toBe('link');
    const { directory, store } = mirror;
    expect(await readlink(placeIn(directory))).toMatch(/^\.\.\/\.\.\/trees\/[0-9a-f]{2}\/[0-9a-f-]{36}$/);
    expect(await textsIn(placeIn(directory))).toEqual(FIRST);
    expect(
      (await store.inventory.read()).published.map(({ path, treePresent }) => [path, treePresent]),
    ).toEqual([[PATH, true]]);
    expect(await isWhole(mirror)).toBe(true);
    expect(await readdir(store.layout.staging)).toEqual([]);
    expect(await readdir(store.layout.trash)).toEqual([]);
    expect(await readdir(store.layout.history)).toEqual([]);
  });

  it('takes over every unchanged file of a tree with more files than are linked together', async () => {
    const many = Object.fromEntries(Array.from({ length: 1100 }, (_, at) => [`${at}.txt`, `text ${at}`]));
    const mirror = await opened(await temporaryFolder());
    await publish(mirror, many);
    const next = { ...many, '700.txt': 'changed' };
    expect(await publish(mirror, next)).toBe('link');
    expect(await textsIn(await realpath(placeIn(mirror.directory)))).toEqual(next);
  });

  it.each<[string, Files]>([
    ['several changes', NEXT],
    ['a file that becomes a folder', { 'a.txt/x': 'one' }],
  ])(
    'replaces the link for %s, and leaves the old tree as it was to who resolved it',
    async (_name, next) => {
      const mirror = await started();
      const { directory, store, place, tree } = mirror;
      const inode = (await lstat(join(tree, 'b/c.txt'))).ino;
      expect(await publish(mirror, next)).toBe('link');
      const after = await realpath(place);
      expect(after).not.toBe(tree);
      expect(await textsIn(after)).toEqual(next);
      if ('b/c.txt' in next) expect((await lstat(join(after, 'b/c.txt'))).ino).toBe(inode);
      await sweep(store, Date.now());
      expect(await textsIn(tree)).toEqual(FIRST);
      await mirror.sweepLater();
      expect(await treesIn(directory)).toHaveLength(1);
      expect(await readdir(store.layout.trash)).toEqual([]);
      expect(await textsIn(place)).toEqual(next);
    },
  );

  it.each<[PublishMode, PublishMode, string]>([
    ['auto', 'link', 'link'],
    ['link', 'rename', 'exchange'],
  ])('takes over trees published with %s when it is %s', async (from, to, method) => {
    const directory = await temporaryFolder();
    const before = await opened(directory, from);
    await publish(before, FIRST);
    const inode = (await lstat(join(placeIn(directory), 'b/c.txt'))).ino;
    await before.store.lock.release();
    const after = await opened(directory, to);
    expect(await isWhole(after)).toBe(true);
    expect(await publish(after, NEXT)).toBe(method);
    expect(await textsIn(placeIn(directory))).toEqual(NEXT);
    expect((await lstat(join(placeIn(directory), 'b/c.txt'))).ino).toBe(inode);
    expect((await lstat(placeIn(directory))).isSymbolicLink()).toBe(to === 'link');
    await after.sweepLater();
    expect(await treesIn(directory)).toHaveLength(to === 'link' ? 1 : 0);
    expect(await readdir(after.store.layout.trash)).toEqual([]);
  });

  it('retires a tree with foreign files in it, and leaves it to readers that resolved the link', async () => {
    const { directory, store, place, tree, sweepLater } = await started();
    const found = { ...FIRST, 'stray.txt': 'stray' };
    await writeFile(join(tree, 'stray.txt'), 'stray');
    await retireTree(store, PATH);
    expect(await lstat(place).catch(() => null)).toBeNull();
    const [entry] = await readHistory(store.layout);
    expect(entry?.kind).toBe('retired');
    expect((await lstat(entry?.tree ?? '')).isDirectory()).toBe(true);
    expect(await textsIn(tree)).toEqual(found);
    await sweepLater();
    expect(await treesIn(directory)).toEqual([]);
    expect(await textsIn(entry?.tree ?? '')).toEqual(found);
  });

  it('moves a target by another link to the same tree', async () => {
    const mirror = await started();
    const { directory, store, tree } = mirror;
    const manifest = await publishedManifest(store.layout, PATH);
    const to = 'example.org/team/Finance/main';
    await moveTree(store, PATH, to, manifest as Manifest);
    expect(await realpath(placeIn(directory, to))).toBe(tree);
    expect(await lstat(placeIn(directory, 'Accounting')).catch(() => null)).toBeNull();
    expect(await isWhole(mirror, to)).toBe(true);
    const name = tree.split('/').at(-1) ?? '';
    expect(await store.inventory.targetAt(`trees/${name.slice(0, 2)}/${name}/a.txt`)).toBe(to);
    await mirror.sweepLater();
    expect(await textsIn(placeIn(directory, to))).toEqual(FIRST);
  });

  it('knows which target a tree belongs to, also after a start', async () => {
    const first = await started();
    const [name = ''] = await treesIn(first.directory);
    const hint = `trees/${name.slice(0, 2)}/${name}/b/c.txt`;
    expect(await first.store.inventory.targetAt(hint)).toBe(PATH);
    await first.store.lock.release();
    const { store } = await opened(first.directory);
    await store.inventory.read();
    expect(await store.inventory.targetAt(hint)).toBe(PATH);
    expect(await store.inventory.targetAt('mirror/Accounting/main/b')).toBe(PATH);
    expect(await store.inventory.targetAt('trees/00')).toBeNull();
    expect(await store.inventory.targetAt('mirror/Accounting')).toBeNull();
  });

  it.each(['link', 'auto', 'rename'] as const)('replaces a dangling link by a tree (%s)', async (mode) => {
    const before = await started();
    const { directory, place } = before;
    await before.store.lock.release();
    await rm(join(directory, 'trees'), { recursive: true });
    const mirror = await opened(directory, mode);
    expect((await mirror.store.inventory.read()).published).toMatchObject([{ treePresent: false }]);
    await publish(mirror, { 'a.txt': 'again' });
    expect(await textsIn(place)).toEqual({ 'a.txt': 'again' });
  });

  it.each([
    ['out of the directory', '/etc'],
    ['to a tree by another way', '../../mirror/../trees/aa/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa'],
    ['to where no tree of its own lies', '../../trees'],
  ])('does not work through a link that leads %s', async (_name, text) => {
    const directory = await temporaryFolder();
    const mirror = await opened(directory);
    await mkdir(dirname(placeIn(directory)), { recursive: true });
    await symlink(text, placeIn(directory));
    await expect(publish(mirror, FIRST)).rejects.toMatchObject({ code: 'disk.changed' });
    expect(await readlink(placeIn(directory))).toBe(text);
  });

  const REMOVALS: readonly [string, (tree: string, place: string) => Promise<void>][] = [
    ['its tree', (tree) => rm(tree, { recursive: true })],
    ['its link', (_tree, place) => rm(place)],
    ['its link, and something else is there', (_tree, place) => rm(place).then(() => mkdir(place))],
  ];
  it.each(REMOVALS)('publishes no part of a tree if someone removes %s during it', async (_what, act) => {
    const { store, directory, place, tree } = await started();
    const published = await publishedManifest(store.layout, PATH);
    const kept = published?.files.filter(({ path }) => path !== 'a.txt') ?? [];
    const stage = await openStage(store, PATH);
    const file = await stageText(stage, 'a.txt', 'new');
    await act(tree, place);
    const before = [await lstat(place).catch(() => null), await readFile(manifestIn(directory), 'utf8')];
    await expect(
      publishStage(store, stage, { manifest: manifestOf([file, ...kept]), before: published }),
    ).rejects.toMatchObject({ code: 'disk.changed' });
    expect([await lstat(place).catch(() => null), await readFile(manifestIn(directory), 'utf8')]).toEqual(
      before,
    );
    await discardStage(store, stage);
    expect(await readdir(store.layout.staging)).toEqual([]);
  });

  it.each([
    ['a day', GRACE_MS, DAY_MS],
    ['`readerGrace` where that is longer', 3 * DAY_MS, 3 * DAY_MS],
  ])('keeps a replaced tree for %s, however old it is', async (_name, readerGraceMs, keptMs) => {
    const mirror = await opened(await temporaryFolder(), 'link', KEPT, readerGraceMs);
    const { directory } = mirror;
    await publish(mirror, FIRST);
    const tree = await realpath(placeIn(directory));
    await utimes(tree, 0, 0);
    await publish(mirror, NEXT);
    await mirror.sweepLater(keptMs - 60_000);
    expect(await textsIn(tree)).toEqual(FIRST);
    await mirror.sweepLater(2 * 3_600_000);
    expect(await treesIn(directory)).toHaveLength(1);
    expect(await textsIn(placeIn(directory))).toEqual(NEXT);
  });

  it('keeps, like the other modes, a replaced tree for its readers when the clock is set back a little', async () => {
    const mirror = await opened(await temporaryFolder(), 'exchange');
    await publish(mirror, FIRST);
    await publish(mirror, NEXT);
    await mirror.sweepLater(-2000);
    expect(await readdir(mirror.store.layout.trash)).toHaveLength(1);
  });

  it.each<[string, (place: string) => Promise<unknown>]>([
    ['removed', (place) => rm(place)],
    ['replaced by a folder', (place) => rm(place).then(() => mkdir(place))],
  ])('removes a tree whose link someone %s, once its target has another', async (_how, act) => {
    const mirror = await started();
    const { directory, place, tree } = mirror;
    await act(place);
    const other = { 'a.txt': 'other', 'z.txt': 'new' };
    await publish(mirror, other);
    await mirror.sweepLater(0);
    expect(await textsIn(tree)).toEqual(FIRST);
    await mirror.sweepLater();
    expect(await treesIn(directory)).toHaveLength(1);
    expect(await textsIn(place)).toEqual(other);
  });

  it('removes no tree without a link that may be the last of its target', async () => {
    const { directory, place, sweepLater } = await started();
    await rm(place);
    for (let sweeps = 0; sweeps < 2; sweeps += 1) await sweepLater();
    expect(await treesIn(directory)).toHaveLength(1);
  });

  it('does not treat a tree as old while its link is made or moved', async () => {
    const mirror = await started();
    const { store, tree } = mirror;
    const found: string[] = [];
    const lookDuring = async (work: Promise<unknown>): Promise<void> => {
      const over = new AbortController();
      const end = work.finally(() => over.abort());
      while (!over.signal.aborted) found.push(...(await findOldTrees(store.layout, DAY_MS, Date.now())));
      await end;
    };
    const places = [PATH, 'A/main', 'Z/main'];
    for (let round = 0; round < 21; round += 1) {
      const [from = '', to = ''] = [places[round % 3], places[(round + 1) % 3]];
      await utimes(tree, 0, 0);
      await lookDuring(moveTree(store, from, to, (await publishedManifest(store.layout, from)) as Manifest));
    }
    for (let round = 0; round < 10; round += 1)
      await lookDuring(publish(mirror, { 'a.txt': `round ${round}` }));
    expect(found).toEqual([]);
  });

  it.each<[PublishMode, string]>([
    ['auto', 'b'],
    ['rename', 'b'],
    ['rename', 'b/c.txt'],
  ])('does not lead out of the directory with publish %s: a link of its form at %s', async (mode, at) => {
    const directory = await temporaryFolder();
    const elsewhere = await temporaryFolder();
    await writeFile(join(elsewhere, 'c.txt'), 'theirs');
    const mirror = await opened(directory, mode);
    await publish(mirror, FIRST);
    const name = 'abababab-abab-4bab-8bab-abababababab';
    const below = `${PATH}/${at}`;
    await rm(placeIn(directory, below), { recursive: true });
    await mkdir(join(directory, 'trees/ab'), { recursive: true });
    await symlink(elsewhere, join(directory, 'trees/ab', name));
    await symlink(`${'../'.repeat(below.split('/').length)}trees/ab/${name}`, placeIn(directory, below));
    await publish(mirror, { ...FIRST, 'b/c.txt': 'changed' }).catch(() => {});
    expect(await textsIn(elsewhere)).toEqual({ 'c.txt': 'theirs' });
    await publish(mirror, { 'a.txt': 'one' }).catch(() => {});
    expect(await textsIn(elsewhere)).toEqual({ 'c.txt': 'theirs' });
  });

  it('reads nothing through a link to a false tree', async () => {
    const elsewhere = await temporaryFolder();
    await writeFile(join(elsewhere, 'secret.txt'), 'secret');
    const { store, tree } = await started();
    await rm(tree, { recursive: true });
    await symlink(elsewhere, tree);
    await retireTree(store, PATH);
    const [entry] = await readHistory(store.layout);
    expect(entry === undefined ? {} : await textsIn(entry.tree)).toEqual({});
  });

  it('keeps a tree with a foreign link, whatever happens to its target', async () => {
    const { directory, store, place, sweepLater } = await started();
    const how = { recursive: true, verbatimSymlinks: true };
    for (const folder of ['mirror', 'manifests'])
      await cp(join(directory, folder, 'Accounting'), join(directory, folder, 'Copy'), how);
    await retireTree(store, 'Copy/main');
    await sweepLater();
    expect(await textsIn(place)).toEqual(FIRST);
    await retireTree(store, PATH);
    await sweepLater();
    expect(await treesIn(directory)).toEqual([]);
  });

  it('neither writes nor removes through a link in `trees`', async () => {
    const elsewhere = await temporaryFolder();
    const mirror = await started();
    const { directory } = mirror;
    const [old = ''] = await treesIn(directory);
    await publish(mirror, NEXT);
    await mkdir(join(elsewhere, old));
    await writeFile(join(elsewhere, old, 'theirs.txt'), 'theirs');
    const folder = join(directory, 'trees', old.slice(0, 2));
    await rename(folder, `${folder}-moved`);
    await symlink(elsewhere, folder);
    await mirror.sweepLater();
    expect(await readdir(elsewhere)).toEqual([old]);
    expect(await readFile(join(elsewhere, old, 'theirs.txt'), 'utf8')).toBe('theirs');
    for (let first = 0; first < 256; first += 1) {
      const name = first.toString(16).padStart(2, '0');
      await symlink(elsewhere, join(directory, 'trees', name)).catch(() => {});
    }
    const failures: unknown[] = [];
    for (let tried = 0; tried < 4; tried += 1)
      await publish(mirror, { 'a.txt': `try ${tried}` }).catch((error: unknown) => failures.push(error));
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toMatchObject({ code: 'disk.changed' });
    expect(await readdir(elsewhere)).toEqual([old]);
  });

  it('keeps a tree that may have a link if the journal of its stage is unreadable', async () => {
    const { directory, store, place } = await started();
    const [name = ''] = await treesIn(directory);
    await store.lock.release();
    const stage = join(directory, '.workbook-mirror/staging', name);
    await mkdir(stage);
    await writeFile(join(stage, 'journal.json'), '{');
    await opened(directory);
    expect(await textsIn(place)).toEqual(FIRST);
    expect(await readdir(join(directory, '.workbook-mirror/staging'))).toEqual([]);
  });

  it('refuses to start if `trees` is a link', async () => {
    const directory = await temporaryFolder();
    await (await opened(directory)).store.lock.release();
    await rm(join(directory, 'trees'), { recursive: true });
    await symlink('/tmp', join(directory, 'trees'));
    await expect(opened(directory)).rejects.toMatchObject({ code: 'disk.changed' });
  });
});
