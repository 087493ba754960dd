import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { Manifest } from '../../../../src/mirror/store/manifest.ts';
import { createInventory } from '../../../../src/mirror/store/inventory.ts';
import {
  type DirectoryLayout,
  layoutOf,
  manifestPath,
  treePath,
} from '../../../../src/mirror/store/layout.ts';
import { formatManifest, readManifest } from '../../../../src/mirror/store/manifest-file.ts';
import { manifestFile, manifestWith, repository } from '../../../support/builders.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const MANIFEST = manifestWith({
  repository: repository({ id: 'id-1', createdAt: null }),
  verifiedAtMs: 1000,
  comparedAtMs: 1000,
  publishedAtMs: 1000,
  fingerprint: 'f1',
  files: ['a.xlsx', 'b.xlsx'].map((path) => manifestFile(path, { sha256: 'a'.repeat(64) })),
});

/** Publishes as the program does: the manifest is replaced. */
async function put(layout: DirectoryLayout, path: string, fields: Partial<Manifest> = {}): Promise<void> {
  await mkdir(treePath(layout, path), { recursive: true });
  await putText(layout, path, [...formatManifest({ ...MANIFEST, ...fields })].join(''));
}

async function putText(layout: DirectoryLayout, path: string, text: string): Promise<void> {
  const file = manifestPath(layout, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

async function makeLayout(): Promise<DirectoryLayout> {
  const layout = layoutOf(await temporaryFolder());
  await mkdir(layout.staging, { recursive: true });
  return layout;
}

/** What another process says that begins with what is written down. */
async function fingerprints(layout: DirectoryLayout): Promise<Record<string, string | null>> {
  const { published } = await createInventory(layout).read();
  return Object.fromEntries(published.map(({ path, fingerprint }) => [path, fingerprint]));
}

/** Reads everything and writes it down. */
async function save(layout: DirectoryLayout): Promise<void> {
  const inventory = createInventory(layout);
  await inventory.read();
  await inventory.save();
}

describe('an inventory', () => {
  it('tells what stands in folders of any depth, in order, and whether the trees are there', async () => {
    const layout = await makeLayout();
    for (const path of ['b/main', 'a/x/main', 'a/main', 'a/feature%2Fx']) await put(layout, path);
    await rm(treePath(layout, 'a/main'), { recursive: true });
    await writeFile(treePath(layout, 'a/main'), 'a file, not a tree');
    await writeFile(join(layout.manifests, 'no manifest.txt'), '');
    await mkdir(join(layout.manifests, 'a folder.json'));
    await putText(layout, 'c/main', 'what nobody understands');
    const { published, unreadable } = await createInventory(layout).read();
    expect(unreadable).toEqual([]);
    expect(published.map(({ path, treePresent }) => [path, treePresent])).toEqual([
      ['a/feature%2Fx', true],
      ['a/main', false],
      ['a/x/main', true],
      ['b/main', true],
    ]);
    expect(published[0]).toMatchObject({ fileCount: 2, branch: 'main', fingerprint: 'f1' });
  });

  it('is empty where nothing was ever published', async () => {
    expect(await createInventory(layoutOf(join(await temporaryFolder(), 'none'))).read()).toEqual({
      published: [],
      unreadable: [],
    });
  });

  // Root may read everything.
  it.skipIf(process.getuid?.() === 0)(
    'says of what the disk does not give that it is not known',
    async () => {
      const layout = await makeLayout();
      await put(layout, 'a/main');
      await put(layout, 'b/main');
      await chmod(manifestPath(layout, 'b/main'), 0);
      const { published, unreadable } = await createInventory(layout).read();
      expect(published.map(({ path }) => path)).toEqual(['a/main']);
      expect(unreadable).toEqual(['b/main']);
    },
  );

  it('takes what was written down for what it was written of, and reads everything else', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    await put(layout, 'b/main');
    await put(layout, 'c/main');
    await save(layout);
    const text = await readFile(layout.summaries, 'utf8');
    expect(text).toContain('"f1"');
    await put(layout, 'b/main', { fingerprint: 'f2' });
    await rm(manifestPath(layout, 'c/main'));
    await put(layout, 'd/main', { fingerprint: 'f3' });
    expect(await fingerprints(layout)).toEqual({ 'a/main': 'f1', 'b/main': 'f2', 'd/main': 'f3' });
    expect(await readFile(layout.summaries, 'utf8')).toBe(text);
  });

  it('gives the same from what was written down as from the manifests', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main', { borrowed: ['x'], etag: '"e"', comparedAtMs: null, restoredAtMs: 5 });
    const { createdAt: _createdAt, ...repository } = MANIFEST.repository;
    await put(layout, 'b/main', { repository });
    const first = await createInventory(layout).read();
    await save(layout);
    expect(await createInventory(layout).read()).toStrictEqual(first);
  });

  it.each([
    ['damaged in the middle', (text: string) => text.replace('"f1"', '"f9"')],
    ['cut off', (text: string) => text.slice(0, -10)],
    ['of another format', (text: string) => `9${text.slice(1)}`],
    ['empty', () => ''],
  ])('does not believe what was written down and is %s', async (_what, damage) => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    await save(layout);
    await writeFile(layout.summaries, damage(await readFile(layout.summaries, 'utf8')));
    expect(await fingerprints(layout)).toEqual({ 'a/main': 'f1' });
  });

  it('writes down only what is news', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    const inventory = createInventory(layout);
    await inventory.read();
    await inventory.save();
    await rm(layout.summaries);
    await inventory.read();
    await inventory.save();
    await expect(readFile(layout.summaries)).rejects.toThrow('ENOENT');
    await rm(manifestPath(layout, 'a/main'));
    await inventory.read();
    await inventory.save();
    expect(await readFile(layout.summaries, 'utf8')).toMatch(/\n\[\]$/);
  });

  it('goes on where nothing can be written down', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    await rm(layout.staging, { recursive: true });
    await save(layout);
    expect(await fingerprints(layout)).toEqual({ 'a/main': 'f1' });
  });
});

describe('readManifest', () => {
  it('reads a manifest once while somebody has it, and again when it was replaced', async () => {
    const layout = await makeLayout();
    const file = manifestPath(layout, 'a/main');
    expect(await readManifest(file)).toBeNull();
    await put(layout, 'a/main');
    const first = await readManifest(file);
    expect(first).toStrictEqual(MANIFEST);
    expect(await readManifest(file)).toBe(first);
    await put(layout, 'a/main', { fingerprint: 'f2' });
    const second = await readManifest(file);
    expect(second?.fingerprint).toBe('f2');
    await putText(layout, 'a/main', '{');
    expect(await readManifest(file)).toBeNull();
    await rm(file);
    expect(await readManifest(file)).toBeNull();
    expect(first?.fingerprint).toBe('f1');
  });
});
