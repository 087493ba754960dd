import { lstat, mkdir, readdir, readFile, readlink, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { Manifest, ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { formatManifest } from '../../../../../src/mirror/store/manifest-text.ts';
import { openStore } from '../../../../../src/mirror/store/open-store.ts';
import { type Intent, STAGED, writeIntent } from '../../../../../src/mirror/store/publish/intent.ts';
import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import { linkedTree } from '../../../../../src/mirror/store/published-tree.ts';
import type { Stage } from '../../../../../src/mirror/store/publish/stage.ts';
import type { MirrorStore } from '../../../../../src/mirror/store/store.ts';
import { manifestWith } from '../../../../support/builders.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

/**
 * What a power cut leaves of a publish: its stage and its intent are flushed together, so any of them may be torn while no step was
 * taken; and once a step was taken they are whole, but not every name that was changed is.
 */

const PATH = 'Accounting/main';
const TIME_MS = Date.UTC(2025, 0, 1);
const OLD = { 'a.txt': 'old a', 'b.txt': 'old b' };

type Files = Readonly<Record<string, string>>;
type Kind = Exclude<Intent['how'], 'rename' | 'relocate'> | 'removal';

const KINDS: readonly Kind[] = ['first', 'exchange', 'link', 'in-place', 'removal', 'manifest'];

async function opened(directory: string): Promise<MirrorStore> {
  const store = await openStore({
    directory,
    publish: 'auto',
    readerGraceMs: 60_000,
    retention: { retired: { kind: 'forever' }, replaced: { kind: 'off' } },
    now: Date.now,
  });
  onTestFinished(() => store.close().catch(() => {}));
  return store;
}

function manifestOf(files: readonly ManifestFile[], fingerprint: string): Manifest {
  const repository = { id: 'id-1', name: 'Accounting', fullName: 'Accounting', url: null };
  const times = { verifiedAtMs: TIME_MS, publishedAtMs: TIME_MS };
  return manifestWith({ repository, ...times, fingerprint, archiveBytes: 1, files });
}

/** What each kind of publish brings, and what of it is staged. */
const NEXT: Readonly<Record<Kind, { readonly next: Files; readonly staged: Files }>> = {
  first: { next: { 'a.txt': 'new a' }, staged: { 'a.txt': 'new a' } },
  exchange: { next: { 'a.txt': 'new a', 'c.txt': 'new c' }, staged: { 'a.txt': 'new a', 'c.txt': 'new c' } },
  link: { next: { 'a.txt': 'new a', 'c.txt': 'new c' }, staged: { 'a.txt': 'new a', 'c.txt': 'new c' } },
  'in-place': { next: { ...OLD, 'a.txt': 'new a' }, staged: { 'a.txt': 'new a' } },
  removal: { next: { 'b.txt': 'old b' }, staged: {} },
  manifest: { next: OLD, staged: {} },
};

/** A publish that was cut off after its stage was written and before anything was renamed. */
interface CutOff {
  readonly directory: string;
  /** The folder of the stage. */
  readonly stage: string;
  readonly kind: Kind;
}

async function cutOff(kind: Kind): Promise<CutOff> {
  const directory = await temporaryFolder();
  const store = await opened(directory);
  const published = kind === 'first' ? [] : await publishOld(store);
  const stage = await store.stage(PATH);
  const { next, staged } = NEXT[kind];
  const files: ManifestFile[] = [];
  for (const [name, text] of Object.entries(next)) {
    const before = published.find((file) => file.path === name);
    files.push(
      name in staged ? await stage.write(name, TIME_MS, [Buffer.from(text)]) : (before as ManifestFile),
    );
  }
  const manifest = join(stage.folder, STAGED.manifest);
  await writeFile(manifest, formatManifest(manifestOf(files, 'new')));
  await writeIntent(stage.folder, await intentOf(kind, stage));
  await store.close();
  return { directory, stage: stage.folder, kind };
}

async function publishOld(store: MirrorStore): Promise<ManifestFile[]> {
  const stage = await store.stage(PATH);
  const files: ManifestFile[] = [];
  for (const [name, text] of Object.entries(OLD))
    files.push(await stage.write(name, TIME_MS, [Buffer.from(text)]));
  await store.publish(stage, PATH, manifestOf(files, 'old'), { rewritten: [], isDamaged: false });
  await stage.discard();
  return files;
}

async function intentOf(kind: Kind, stage: Stage): Promise<Intent> {
  const inodeOf = async (name: string): Promise<number> => (await lstat(join(stage.folder, name))).ino;
  const replaced = { displacedTo: null, keptTo: null, unlinked: null };
  const both = { path: PATH, manifestInode: await inodeOf(STAGED.manifest) };
  switch (kind) {
    case 'first':
      return { how: 'first', stagedInode: await inodeOf(STAGED.tree), ...both };
    case 'exchange':
      return { how: 'exchange', stagedInode: await inodeOf(STAGED.tree), ...replaced, ...both };
    case 'link':
      return { how: 'link', linked: await stage.link(PATH), ...replaced, ...both };
    case 'in-place': {
      const stagedInode = await inodeOf(join(STAGED.tree, 'a.txt'));
      return { how: 'in-place', file: 'a.txt', isRemoval: false, stagedInode, ...both };
    }
    case 'removal':
      return { how: 'in-place', file: 'a.txt', isRemoval: true, ...both };
    case 'manifest':
      return { how: 'manifest', ...both };
  }
}

async function treeOf(directory: string): Promise<Files | null> {
  const root = join(directory, 'mirror', PATH);
  const names = await readdir(root).catch(() => null);
  if (names === null) return null;
  const texts = await Promise.all(
    names.map(async (name) => [name, await readFile(join(root, name), 'utf8')]),
  );
  return Object.fromEntries(texts) as Files;
}

/** What is published once the directory was opened again. */
async function afterwards({ directory }: CutOff): Promise<{
  readonly recovered: readonly string[];
  readonly tree: Files | null;
  readonly fingerprint: string | null | undefined;
  readonly left: readonly string[];
}> {
  const store = await opened(directory);
  return {
    recovered: store.recovered,
    tree: await treeOf(directory),
    fingerprint: (await store.manifest(PATH))?.fingerprint,
    left: [...(await readdir(store.layout.staging)), ...(await lonelyTrees(directory))],
  };
}

function before(kind: Kind): Awaited<ReturnType<typeof afterwards>> {
  const isThere = kind !== 'first';
  return { recovered: [], tree: isThere ? OLD : null, fingerprint: isThere ? 'old' : undefined, left: [] };
}

function after(kind: Kind): Awaited<ReturnType<typeof afterwards>> {
  return { recovered: [PATH], tree: NEXT[kind].next, fingerprint: 'new', left: [] };
}

/** Where the new tree of a stage lies. */
async function newTreeOf(stage: string): Promise<string> {
  const isLink = (await lstat(join(stage, STAGED.link)).catch(() => null)) !== null;
  if (!isLink) return join(stage, STAGED.tree);
  return linkedTree(layoutOf(join(stage, '../../..')), basename(stage));
}

/** The trees that nothing leads to. */
async function lonelyTrees(directory: string): Promise<string[]> {
  const trees = await readdir(join(directory, 'trees'), { recursive: true }).catch(() => []);
  const link = await readlink(join(directory, 'mirror', PATH)).catch(() => '');
  return trees.filter((path) => path.split('/').length === 2 && !link.endsWith(path));
}

const TEARS: Readonly<Record<string, (stage: string) => Promise<void>>> = {
  'nothing torn': () => Promise.resolve(),
  'an empty manifest': (stage) => truncate(join(stage, STAGED.manifest)),
  'half a manifest': (stage) => truncate(join(stage, STAGED.manifest), 100),
  'no manifest': (stage) => rm(join(stage, STAGED.manifest)),
  'an empty tree': async (stage) => {
    const tree = await newTreeOf(stage);
    await rm(tree, { recursive: true });
    await mkdir(tree);
  },
  'no tree': async (stage) => rm(await newTreeOf(stage), { recursive: true }),
  'neither tree nor manifest': async (stage) => {
    await rm(await newTreeOf(stage), { recursive: true });
    await rm(join(stage, STAGED.manifest));
  },
  'half an intent': (stage) => truncate(join(stage, 'intent.json'), 20),
};

describe('a publish that was cut off before its first step', () => {
  const points = KINDS.flatMap((kind) => Object.keys(TEARS).map((tear) => [kind, tear] as const));
  it.each(points)('(%s) is thrown away with %s', async (kind, tear) => {
    const cut = await cutOff(kind);
    await TEARS[tear]?.(cut.stage);
    expect(await afterwards(cut)).toEqual(before(kind));
  });

  it.each(['no manifest', 'half a manifest', 'an empty manifest'])(
    'is thrown away with %s also where somebody else removed the file that it was to remove',
    async (tear) => {
      const cut = await cutOff('removal');
      await rm(join(cut.directory, 'mirror', PATH, 'a.txt'));
      await TEARS[tear]?.(cut.stage);
      expect(await afterwards(cut)).toEqual({ ...before('removal'), tree: { 'b.txt': 'old b' } });
    },
  );

  it('is thrown away where somebody else made the tree that it was to make', async () => {
    const cut = await cutOff('first');
    // First: once the staged one is gone, the file system may give its inode to the other one.
    await mkdir(join(cut.directory, 'mirror', PATH), { recursive: true });
    await rm(join(cut.stage, STAGED.tree), { recursive: true });
    expect(await afterwards(cut)).toEqual({ ...before('first'), tree: {} });
  });
});

/** Takes the step of the tree, as a publish does. */
async function takeStep({ directory, stage, kind }: CutOff): Promise<void> {
  const [staged, published] = [join(stage, STAGED.tree), join(directory, 'mirror', PATH)];
  switch (kind) {
    case 'first':
      await mkdir(dirname(published), { recursive: true });
      return rename(staged, published);
    case 'exchange':
      await rename(published, `${stage}/old`);
      await rename(staged, published);
      return rename(`${stage}/old`, staged);
    case 'link':
      await rename(published, `${stage}/old`);
      await rename(join(stage, STAGED.link), published);
      return rename(`${stage}/old`, join(stage, STAGED.link));
    case 'in-place':
      return rename(join(staged, 'a.txt'), join(published, 'a.txt'));
    case 'removal':
      return rm(join(published, 'a.txt'));
    case 'manifest':
  }
}

async function placeManifest({ directory, stage }: CutOff): Promise<void> {
  const place = join(directory, 'manifests', `${PATH}.json`);
  await mkdir(dirname(place), { recursive: true });
  await rename(join(stage, STAGED.manifest), place);
}

describe('a publish that was cut off after its first step', () => {
  it.each(['first', 'exchange', 'link', 'in-place', 'removal'] as const)(
    '(%s) gets its manifest',
    async (kind) => {
      const cut = await cutOff(kind);
      await takeStep(cut);
      expect(await afterwards(cut)).toEqual(after(kind));
    },
  );

  it.each(['first', 'exchange', 'link', 'in-place'] as const)(
    '(%s) gets its tree where only the name of its manifest has reached the disk',
    async (kind) => {
      const cut = await cutOff(kind);
      await placeManifest(cut);
      expect(await afterwards(cut)).toEqual(after(kind));
    },
  );

  it.each(KINDS)('(%s) is found complete, and not done again', async (kind) => {
    const cut = await cutOff(kind);
    await takeStep(cut);
    await placeManifest(cut);
    expect(await afterwards(cut)).toEqual(after(kind));
  });

  it('does not take back what somebody else did to the tree since', async () => {
    const cut = await cutOff('exchange');
    await takeStep(cut);
    await placeManifest(cut);
    const tree = join(cut.directory, 'mirror', PATH);
    await rename(tree, join(cut.directory, 'elsewhere'));
    await mkdir(tree);
    await writeFile(join(tree, 'mine.txt'), 'mine');
    expect(await afterwards(cut)).toEqual({ ...after('exchange'), tree: { 'mine.txt': 'mine' } });
  });
});

describe('an intent of an earlier version', () => {
  it.each(['first', 'exchange', 'in-place', 'removal'] as const)(
    '(%s) is proven by the names alone',
    async (kind) => {
      const cut = await cutOff(kind);
      await forgetInodes(cut);
      expect(await afterwards(cut)).toEqual(before(kind));
      const again = await cutOff(kind);
      await forgetInodes(again);
      await takeStep(again);
      expect(await afterwards(again)).toEqual(after(kind));
    },
  );

  it('is carried out where only the manifest changes', async () => {
    const cut = await cutOff('manifest');
    await forgetInodes(cut);
    expect(await afterwards(cut)).toEqual(after('manifest'));
  });
});

/** Makes an intent what versions wrote that flushed everything before it. */
async function forgetInodes({ stage, kind }: CutOff): Promise<void> {
  const file = join(stage, 'intent.json');
  const {
    manifestInode: _manifest,
    stagedInode,
    ...intent
  } = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  await writeFile(file, JSON.stringify(kind === 'exchange' ? { ...intent, stagedInode } : intent));
}
