import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../../../src/mirror/store/manifest.ts';
import { emptyRecord, type RememberedTree } from '../../../../src/mirror/plan/record.ts';
import { storedRecordSchema } from '../../../../src/mirror/state/schemas.ts';
import { createInventory } from '../../../../src/mirror/store/inventory.ts';
import {
  type DirectoryLayout,
  layoutOf,
  manifestPath,
  treePath,
} from '../../../../src/mirror/store/layout.ts';
import { formatManifest } from '../../../../src/mirror/store/manifest-text.ts';
import { manifestFile, manifestWith, repository, target } from '../../../support/builders.ts';
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

/** The records to keep of all published trees. */
async function remembered(layout: DirectoryLayout): Promise<RememberedTree[]> {
  return [...(await createInventory(layout).read()).trees.values()];
}

/** The view of another process that starts with these records. */
async function fingerprints(
  layout: DirectoryLayout,
  trees: readonly RememberedTree[],
): Promise<Record<string, string | null>> {
  const inventory = createInventory(layout);
  inventory.recall(trees);
  const { published } = await inventory.read();
  return Object.fromEntries(published.map(({ path, fingerprint }) => [path, fingerprint]));
}

describe('an inventory', () => {
  it('lists manifests in folders of any depth, in order, and whether their trees exist', async () => {
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

  it('does not take a tree behind a link for the published one', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/b/main');
    await rename(join(layout.mirror, 'a'), join(layout.root, 'elsewhere'));
    await symlink('../elsewhere', join(layout.mirror, 'a'));
    expect((await createInventory(layout).read()).published).toMatchObject([{ treePresent: false }]);
  });

  // Root may read everything.
  it.skipIf(process.getuid?.() === 0)('reports unreadable parts of the disk as unknown', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    await put(layout, 'b/main');
    await chmod(manifestPath(layout, 'b/main'), 0);
    const { published, unreadable } = await createInventory(layout).read();
    expect(published.map(({ path }) => path)).toEqual(['a/main']);
    expect(unreadable).toEqual(['b/main']);
  });

  it('uses a record only for the manifest that it came from, and reads everything else', async () => {
    const layout = await makeLayout();
    for (const path of ['a/main', 'b/main', 'c/main']) await put(layout, path);
    // Shows which facts are remembered and which are read.
    const trees = (await remembered(layout)).map(({ stamp, summary, check }) => {
      return { stamp, summary: Object.assign({}, summary, { fingerprint: 'remembered' }), check };
    });
    await put(layout, 'b/main', { fingerprint: 'f2' });
    await rm(manifestPath(layout, 'c/main'));
    await put(layout, 'd/main', { fingerprint: 'f3' });
    expect(await fingerprints(layout, trees)).toEqual({
      'a/main': 'remembered',
      'b/main': 'f2',
      'd/main': 'f3',
    });
  });

  it('gives the same from records as from the manifests', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main', { borrowed: ['x'], etag: '"e"', restoredAtMs: 5 });
    await put(layout, 'b/main', { missing: ['y.xlsx'] });
    const first = await createInventory(layout).read();
    const inventory = createInventory(layout);
    inventory.recall(first.trees.values());
    expect(await inventory.read()).toStrictEqual({ ...first, isOwn: expect.any(Function) as unknown });
  });

  it('records the same after a publish as after reading', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    const [read] = await remembered(layout);
    const inventory = createInventory(layout);
    expect(await inventory.note('a/main', MANIFEST)).toEqual(read);
    expect(await inventory.note('none/main', MANIFEST)).toBeNull();
  });

  it('does not read a tree that it just published, until it changes', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main', { fingerprint: 'written' });
    const inventory = createInventory(layout);
    const fingerprints = async (): Promise<(string | null)[]> =>
      (await inventory.read()).published.map(({ fingerprint }) => fingerprint);
    await inventory.note('a/main', { ...MANIFEST, fingerprint: 'noted' });
    expect(await fingerprints()).toStrictEqual(['noted']);
    await put(layout, 'a/main', { fingerprint: 'written anew' });
    expect(await fingerprints()).toStrictEqual(['written anew']);
  });

  it('keeps its records in the state cache, and drops damaged ones', async () => {
    const layout = await makeLayout();
    await put(layout, 'a/main');
    const [tree] = await remembered(layout);
    if (tree === undefined) throw new Error('nothing is published');
    const stored = JSON.parse(JSON.stringify({ ...emptyRecord(target()), tree })) as { tree: object };
    expect(storedRecordSchema.parse(stored).tree).toEqual(tree);
    const spoilt = [
      { ...tree, summary: { ...tree.summary, fingerprint: 'f9' } },
      { ...tree, stamp: `${tree.stamp}1` },
      { ...tree, summary: { ...tree.summary, path: '../outside' } },
      { ...tree, check: undefined },
      'x',
    ];
    for (const each of spoilt) {
      const record = storedRecordSchema.parse({ ...stored, tree: each });
      expect(record).toMatchObject({ tree: null, target: target() });
    }
  });
});
