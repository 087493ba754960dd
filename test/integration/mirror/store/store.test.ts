import { publishedManifest } from '../../../../src/mirror/store/inventory.ts';
import { discardStage, recover } from '../../../../src/mirror/store/publish/journal.ts';
import { publishStage, retireTree } from '../../../../src/mirror/store/publish/publish.ts';
import { openStage } from '../../../../src/mirror/store/publish/stage.ts';
import { sweep } from '../../../../src/mirror/store/publish/sweep.ts';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { chmod, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { PublishMode } from '../../../../src/mirror/store/publish/moves.ts';
import type { MirrorStore } from '../../../../src/mirror/store/disk.ts';
import {
  type Files,
  manifestOf,
  openTestStore,
  publishFiles,
  textsIn,
  stageText,
} from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PATH = 'Accounting/main';

/** Whether this machine's temporary folder supports immutable folders, and this user may make them. */
const canFreeze = ((): boolean => {
  const folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-freeze-'));
  const isFrozen = spawnSync('chattr', ['+i', folder]).status === 0;
  spawnSync('chattr', ['-i', folder]);
  rmSync(folder, { recursive: true });
  return isFrozen;
})();

/** The files below a folder that this process has open. */
function filesOpenBelow(folder: string): string[] {
  return readdirSync('/proc/self/fd')
    .flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/self/fd/${fd}`)];
      } catch {
        return [];
      }
    })
    .filter((path) => path.startsWith(folder));
}

/** A store in a new directory that has published files, and the place of their tree. */
async function started(files: Files, options: Parameters<typeof openTestStore>[1] = {}) {
  const directory = await temporaryFolder();
  const store = await openTestStore(directory, options);
  expect(await publishFiles(store, PATH, files)).toMatch(/first|link/);
  return { directory, place: join(directory, 'mirror', PATH), store };
}

describe('publishing', () => {
  const first = { 'a.txt': 'one', 'b/c.txt': 'two', 'b/d.txt': 'three' };

  it.each<[string, Files, string]>([
    ['one changed file', { ...first, 'a.txt': 'ONE' }, 'in-place'],
    ['one new file in a new folder', { ...first, 'e/f.txt': 'new' }, 'exchange'],
    ['one removed file', { 'a.txt': 'one', 'b/c.txt': 'two' }, 'in-place'],
    ['a file that becomes a folder', { 'a.txt/x': 'one', 'b/c.txt': 'two', 'b/d.txt': 'three' }, 'exchange'],
    ['nothing left', {}, 'exchange'],
    ['nothing new', first, 'manifest'],
  ])('brings %s into the tree', async (_name, next, method) => {
    const { place, store } = await started(first);
    expect(await publishFiles(store, PATH, next)).toBe(method);
    expect(await textsIn(place)).toEqual(next);
    expect((await publishedManifest(store.layout, PATH))?.files.map((file) => file.path)).toEqual(
      Object.keys(next).sort(),
    );
    expect(await readdir(store.layout.staging)).toEqual([]);
    // Only a tree that becomes empty is kept: it counts as gone.
    expect(await readdir(store.layout.history)).toEqual(Object.keys(next).length === 0 ? ['Accounting'] : []);
  });

  it('keeps a replaced tree whole for readers in it, and removes it when its time is over', async () => {
    let nowMs = Date.now();
    const { place, store } = await started(first, { publish: 'exchange', now: () => nowMs });
    const reader = await open(place);
    onTestFinished(() => reader.close());
    await publishFiles(store, PATH, { 'a.txt': 'ONE' });
    const entered = `/proc/self/fd/${reader.fd}`;
    expect(await readFile(join(entered, 'b/c.txt'), 'utf8')).toBe('two');
    await sweep(store, nowMs);
    expect(await readFile(join(entered, 'a.txt'), 'utf8')).toBe('one');
    nowMs += 60_001;
    await sweep(store, nowMs);
    expect(await readdir(store.layout.trash)).toEqual([]);
    expect(await textsIn(place)).toEqual({ 'a.txt': 'ONE' });
  });

  it.skipIf(process.getuid?.() === 0)(
    'removes replaced trees although one of them cannot be removed',
    async () => {
      let nowMs = Date.now();
      const { store } = await started(first, { publish: 'exchange', now: () => nowMs });
      await publishFiles(store, PATH, { 'a.txt': 'ONE' });
      const [stuck = ''] = await readdir(store.layout.trash);
      const folder = join(store.layout.trash, stuck);
      await chmod(folder, 0o500);
      onTestFinished(() => chmod(folder, 0o700));
      nowMs += 1;
      await publishFiles(store, PATH, { 'a.txt': 'TWO' });
      nowMs += 60_001;
      expect((await sweep(store, nowMs)).failure).toMatchObject({ code: 'disk.failed' });
      expect(await readdir(store.layout.trash)).toEqual([stuck]);
    },
  );

  it('moves a tree without manifest, and another repository’s tree, into the history', async () => {
    const directory = await temporaryFolder();
    const store = await openTestStore(directory);
    await mkdir(join(directory, 'mirror', PATH), { recursive: true });
    await writeFile(join(directory, 'mirror', PATH, 'mine.txt'), 'not from the service');
    await publishFiles(store, PATH, first);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual(first);
    await publishFiles(store, PATH, { 'other.txt': 'new repository' }, 'id-2');
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual({ 'other.txt': 'new repository' });
    const kept = await readdir(join(directory, 'history'), { recursive: true });
    expect(kept.filter((name) => name.endsWith('mine.txt'))).toHaveLength(1);
    expect(kept.filter((name) => name.endsWith('b/c.txt'))).toHaveLength(1);
    expect(kept.filter((name) => name.endsWith('.json'))).toHaveLength(1);
  });

  it.each<PublishMode>(['auto', 'exchange', 'rename'])(
    'replaces a file in place of the tree (%s)',
    async (mode) => {
      const tree = { a: '1', 'b/c': '2' };
      const { place, store } = await started(tree, { publish: mode });
      const before = await publishedManifest(store.layout, PATH);
      await rm(place, { recursive: true });
      await writeFile(place, 'something else');
      const stage = await openStage(store, PATH);
      for (const [name, text] of Object.entries(tree)) await stageText(stage, name, text);
      const manifest = manifestOf(before?.files ?? []);
      await publishStage(store, stage, { manifest, before, rewritten: Object.keys(tree), isDamaged: true });
      await discardStage(store, stage);
      expect(await textsIn(place)).toEqual(tree);
    },
  );

  it.each<PublishMode>(['auto', 'exchange', 'rename'])(
    'publishes no part of a tree if the old one disappears during it (%s)',
    async (mode) => {
      const { directory, place, store } = await started(first, { publish: mode });
      const before = await publishedManifest(store.layout, PATH);
      const [, ...kept] = before?.files ?? [];
      const stage = await openStage(store, PATH);
      const file = await stageText(stage, 'a.txt', 'new');
      await rm(place, { recursive: true });
      await expect(
        publishStage(store, stage, { manifest: manifestOf([file, ...kept]), before }),
      ).rejects.toMatchObject({ code: 'disk.changed' });
      await discardStage(store, stage);
      expect(await readdir(join(directory, 'mirror/Accounting'))).toEqual([]);
    },
  );

  it.each<PublishMode>(['exchange', 'link'])(
    'shows a concurrent reader only whole states (%s)',
    async (mode) => {
      const state = (version: number): Files =>
        Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}.txt`, String(version)]));
      const { place, store } = await started(state(0), { publish: mode });
      const over = new AbortController();
      const torn: string[] = [];
      const reader = (async () => {
        while (!over.signal.aborted) {
          const handle = await open(place);
          const texts = Object.values(await textsIn(`/proc/self/fd/${handle.fd}`));
          if (texts.length !== 20 || new Set(texts).size !== 1) torn.push(texts.join(','));
          await handle.close();
        }
      })();
      for (let version = 1; version <= 40; version += 1) await publishFiles(store, PATH, state(version));
      over.abort();
      await reader;
      expect(torn).toEqual([]);
    },
  );
});

describe('recovery', () => {
  it('deletes a stage with an incomplete journal', async () => {
    const { directory, place, store } = await started({ 'a.txt': 'one' });
    const stage = await openStage(store, PATH);
    await stageText(stage, 'a.txt', 'two');
    await writeFile(join(stage.folder, 'journal.json'), '{"targets":["Acc');
    await store.lock.release();
    const again = await openTestStore(directory);
    expect(again.recovered).toEqual([]);
    expect(await textsIn(place)).toEqual({ 'a.txt': 'one' });
    expect(await readdir(again.layout.staging)).toEqual([]);
  });

  it('refuses an interrupted publish of an earlier version, and names the version that can finish it', async () => {
    const { directory, store } = await started({ 'a.txt': 'one' });
    await store.lock.release();
    const stage = join(directory, '.workbook-mirror/staging/left');
    await mkdir(stage);
    const intent = join(stage, 'intent.json');
    await writeFile(intent, JSON.stringify({ how: 'manifest', path: PATH }));
    await expect(openTestStore(directory)).rejects.toMatchObject({
      code: 'directory.unusable',
      hint: expect.stringContaining('version 0.1.0') as string,
    });
    expect(await readdir(stage)).toEqual(['intent.json']);
    await rm(intent);
    await openTestStore(directory);
    expect(await readdir(join(directory, '.workbook-mirror/staging'))).toEqual([]);
  });
});

describe('an error in the middle of a publish', () => {
  const modes: readonly PublishMode[] = ['auto', 'exchange', 'rename'];
  it.skipIf(!canFreeze).each(modes)(
    'loses nothing, holds its target, also after a start, and is completed later (%s)',
    async (publish) => {
      const { directory, place, store } = await started({ 'a.txt': 'one', 'b.txt': 'two' }, { publish });
      const stage = await openStage(store, PATH);
      const inventory = [await stageText(stage, 'a.txt', 'ONE')];
      const manifests = join(directory, 'manifests/Accounting');
      const before = await publishedManifest(store.layout, PATH);
      const next = { manifest: manifestOf(inventory), before };
      // Entries of this folder can be read, but not made, renamed or removed (chattr(1)).
      const thaw = (): void => void spawnSync('chattr', ['-i', manifests]);
      spawnSync('chattr', ['+i', manifests]);
      onTestFinished(thaw);
      await expect(publishStage(store, stage, next)).rejects.toThrow();
      await discardStage(store, stage);
      const failed = {
        code: 'disk.failed',
        message: expect.stringContaining('An earlier publish') as unknown,
      };
      await expect(retireTree(store, PATH)).rejects.toMatchObject(failed);
      expect(await recover(store)).toEqual([]);
      await store.lock.release();

      const again = await openTestStore(directory, { publish });
      expect(again.recovered).toEqual([]);
      await expect(publishFiles(again, PATH, { 'a.txt': 'three' })).rejects.toMatchObject(failed);
      expect(await publishFiles(again, 'Other/main', { 'x.txt': 'other' })).toBe('first');
      thaw();
      expect(await recover(again)).toEqual([PATH]);
      expect(await textsIn(place)).toEqual({ 'a.txt': 'ONE' });
      expect((await publishedManifest(again.layout, PATH))?.files).toEqual(inventory);
      expect(await readdir(again.layout.staging)).toEqual([]);
      expect(await publishFiles(again, PATH, { 'a.txt': 'three', 'b.txt': 'four' })).not.toBe('manifest');
    },
  );

  it('does not retire another tree at the path when it is completed', async () => {
    const { directory, place, store } = await started({ 'a.txt': 'old' });
    const taken = join(directory, 'history', PATH);
    await mkdir(join(directory, 'history/Accounting'));
    await writeFile(taken, 'a file where a folder belongs');
    await expect(retireTree(store, PATH)).rejects.toThrow();
    await rename(place, join(directory, 'old'));
    await mkdir(place);
    await writeFile(join(place, 'a.txt'), 'new');
    await rm(taken);
    await store.lock.release();
    await openTestStore(directory);
    expect(await textsIn(place)).toEqual({ 'a.txt': 'new' });
  });
});

it('the directory leaves no file of a shared directory open if it cannot be opened', async () => {
  const directory = await temporaryFolder();
  const open = (): Promise<MirrorStore> => openTestStore(directory, { shard: { index: 1, count: 2 } });
  await (await open()).lock.release();
  const ofEarlierVersion = join(directory, '.workbook-mirror/shards/1/staging/left');
  await mkdir(ofEarlierVersion);
  await writeFile(join(ofEarlierVersion, 'intent.json'), '{}');
  await expect(open()).rejects.toMatchObject({ code: 'directory.unusable' });
  expect(filesOpenBelow(directory)).toEqual([]);
});
