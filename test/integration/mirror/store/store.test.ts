import { publishedManifest } from '../../../../src/mirror/store/inventory.ts';
import { discardStage, recover } from '../../../../src/mirror/store/publish/journal.ts';
import { publishStage, retireTree } from '../../../../src/mirror/store/publish/publish.ts';
import { openStage } from '../../../../src/mirror/store/publish/stage.ts';
import { sweep } from '../../../../src/mirror/store/publish/sweep.ts';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
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
    const directory = await temporaryFolder();
    const store = await openTestStore(directory);
    expect(await publishFiles(store, PATH, first)).toBe('first');
    expect(await publishFiles(store, PATH, next)).toBe(method);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual(next);
    expect((await publishedManifest(store.layout, PATH))?.files.map((file) => file.path)).toEqual(
      Object.keys(next).sort(),
    );
    expect(await readdir(store.layout.staging)).toEqual([]);
    // Only a tree that becomes empty is kept: it counts as gone.
    expect(await readdir(store.layout.history)).toEqual(Object.keys(next).length === 0 ? ['Accounting'] : []);
  });

  it('keeps a replaced tree whole for readers in it, and removes it when its time is over', async () => {
    const directory = await temporaryFolder();
    let nowMs = Date.now();
    const store = await openTestStore(directory, { publish: 'exchange', now: () => nowMs });
    await publishFiles(store, PATH, first);
    const reader = await open(join(directory, 'mirror', PATH));
    onTestFinished(() => reader.close());
    await publishFiles(store, PATH, { 'a.txt': 'ONE' });
    const entered = `/proc/self/fd/${reader.fd}`;
    expect(await readFile(join(entered, 'b/c.txt'), 'utf8')).toBe('two');
    await sweep(store, nowMs);
    expect(await readFile(join(entered, 'a.txt'), 'utf8')).toBe('one');
    nowMs += 60_001;
    await sweep(store, nowMs);
    expect(await readdir(store.layout.trash)).toEqual([]);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual({ 'a.txt': 'ONE' });
  });

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
      const directory = await temporaryFolder();
      const store = await openTestStore(directory, { publish: mode });
      const tree = { a: '1', 'b/c': '2' };
      await publishFiles(store, PATH, tree);
      const before = await publishedManifest(store.layout, PATH);
      await rm(join(directory, 'mirror', PATH), { recursive: true });
      await writeFile(join(directory, 'mirror', PATH), 'something else');
      const stage = await openStage(store, PATH);
      for (const [name, text] of Object.entries(tree)) await stageText(stage, name, text);
      const manifest = manifestOf(before?.files ?? []);
      await publishStage(store, stage, { manifest, before, rewritten: Object.keys(tree), isDamaged: true });
      await discardStage(store, stage);
      expect(await textsIn(join(directory, 'mirror', PATH))).toEqual(tree);
    },
  );

  it.each<PublishMode>(['auto', 'exchange', 'rename'])(
    'publishes no part of a tree if the old one disappears during it (%s)',
    async (mode) => {
      const directory = await temporaryFolder();
      const store = await openTestStore(directory, { publish: mode });
      await publishFiles(store, PATH, first);
      const before = await publishedManifest(store.layout, PATH);
      const [, ...kept] = before?.files ?? [];
      const stage = await openStage(store, PATH);
      const file = await stageText(stage, 'a.txt', 'new');
      await rm(join(directory, 'mirror', PATH), { recursive: true });
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
      const directory = await temporaryFolder();
      const store = await openTestStore(directory, { publish: mode });
      const state = (version: number): Files =>
        Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}.txt`, String(version)]));
      await publishFiles(store, PATH, state(0));
      const over = new AbortController();
      const torn: string[] = [];
      const reader = (async () => {
        while (!over.signal.aborted) {
          const handle = await open(join(directory, 'mirror', PATH));
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
    const directory = await temporaryFolder();
    const store = await openTestStore(directory);
    await publishFiles(store, PATH, { 'a.txt': 'one' });
    const stage = await openStage(store, PATH);
    await stageText(stage, 'a.txt', 'two');
    await writeFile(join(stage.folder, 'journal.json'), '{"targets":["Acc');
    await store.lock.release();
    const again = await openTestStore(directory);
    expect(again.recovered).toEqual([]);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual({ 'a.txt': 'one' });
    expect(await readdir(again.layout.staging)).toEqual([]);
  });

  it('refuses an interrupted publish of an earlier version, and names the version that can finish it', async () => {
    const directory = await temporaryFolder();
    const store = await openTestStore(directory);
    await publishFiles(store, PATH, { 'a.txt': 'one' });
    await store.lock.release();
    const stage = join(directory, '.workbook-mirror/staging/left');
    await mkdir(stage);
    const intent = join(stage, 'intent.json');
    await writeFile(intent, JSON.stringify({ how: 'manifest', path: PATH }));
    await expect(openTestStore(directory)).rejects.toMatchObject({
      code: 'directory.unusable',
      hint: expect.stringContaining('94fbe25') as string,
    });
    expect(await readdir(stage)).toEqual(['intent.json']);
    await rm(intent);
    await openTestStore(directory);
    expect(await readdir(join(directory, '.workbook-mirror/staging'))).toEqual([]);
  });
});

describe('an error in the middle of a publish', () => {
  /** Freezes a folder: its entries can be read, but not made, renamed or removed (chattr(1)). */
  function freeze(folder: string): () => void {
    const thaw = (): void => void spawnSync('chattr', ['-i', folder]);
    spawnSync('chattr', ['+i', folder]);
    onTestFinished(thaw);
    return thaw;
  }

  const modes: readonly PublishMode[] = ['auto', 'exchange', 'rename'];
  it.skipIf(!canFreeze).each(modes)('loses nothing and is completed later (%s)', async (mode) => {
    const directory = await temporaryFolder();
    const store = await openTestStore(directory, { publish: mode });
    await publishFiles(store, PATH, { 'a.txt': 'one', 'b.txt': 'two' });
    const stage = await openStage(store, PATH);
    const inventory = [await stageText(stage, 'a.txt', 'ONE')];
    const thaw = freeze(join(directory, 'manifests/Accounting'));
    const before = await publishedManifest(store.layout, PATH);
    const next = { manifest: manifestOf(inventory), before };
    await expect(publishStage(store, stage, next)).rejects.toThrow();
    await discardStage(store, stage);
    expect(await recover(store)).toEqual([]);
    await expect(retireTree(store, PATH)).rejects.toMatchObject({ code: 'disk.failed' });
    thaw();
    expect(await recover(store)).toEqual([PATH]);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual({ 'a.txt': 'ONE' });
    expect((await publishedManifest(store.layout, PATH))?.files).toEqual(inventory);
    expect(await readdir(store.layout.staging)).toEqual([]);
    expect(await publishFiles(store, PATH, { 'a.txt': 'three', 'b.txt': 'four' })).not.toBe('manifest');
  });

  it('does not retire another tree at the path when it is completed', async () => {
    const directory = await temporaryFolder();
    const store = await openTestStore(directory);
    await publishFiles(store, PATH, { 'a.txt': 'old' });
    await mkdir(join(directory, 'history', PATH), { recursive: true });
    await writeFile(join(directory, 'history/Accounting/blocked'), '');
    await rm(join(directory, 'history', PATH), { recursive: true });
    await writeFile(join(directory, 'history', PATH), 'a file where a folder belongs');
    await expect(retireTree(store, PATH)).rejects.toThrow();
    await rename(join(directory, 'mirror', PATH), join(directory, 'old'));
    await mkdir(join(directory, 'mirror', PATH));
    await writeFile(join(directory, 'mirror', PATH, 'a.txt'), 'new');
    await rm(join(directory, 'history', PATH));
    await store.lock.release();
    await openTestStore(directory);
    expect(await textsIn(join(directory, 'mirror', PATH))).toEqual({ 'a.txt': 'new' });
  });

  it.skipIf(!canFreeze)(
    'opens, and says which target waits, when something cannot be completed yet',
    async () => {
      const directory = await temporaryFolder();
      const store = await openTestStore(directory, { publish: 'exchange' });
      await publishFiles(store, PATH, { 'a.txt': 'one' });
      const stage = await openStage(store, PATH);
      const inventory = [await stageText(stage, 'a.txt', 'two')];
      freeze(join(directory, 'manifests/Accounting'));
      const before = await publishedManifest(store.layout, PATH);
      const next = { manifest: manifestOf(inventory), before };
      await expect(publishStage(store, stage, next)).rejects.toThrow();
      await store.lock.release();
      const again = await openTestStore(directory, { publish: 'exchange' });
      expect(again.recovered).toEqual([]);
      await expect(publishFiles(again, PATH, { 'a.txt': 'three' })).rejects.toMatchObject({
        code: 'disk.failed',
      });
      expect(await publishFiles(again, 'Other/main', { 'x.txt': 'other' })).toBe('first');
    },
  );
});

describe('the directory', () => {
  it('leaves no file of a shared directory open if it cannot be opened', async () => {
    const directory = await temporaryFolder();
    const open = (): Promise<MirrorStore> => openTestStore(directory, { shard: { index: 1, count: 2 } });
    await (await open()).lock.release();
    const ofEarlierVersion = join(directory, '.workbook-mirror/shards/1/staging/left');
    await mkdir(ofEarlierVersion);
    await writeFile(join(ofEarlierVersion, 'intent.json'), '{}');
    await expect(open()).rejects.toMatchObject({ code: 'directory.unusable' });
    expect(filesOpenBelow(directory)).toEqual([]);
  });
});
