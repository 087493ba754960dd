import { lstat } from 'node:fs/promises';
import { join } from 'node:path';

import type { Sharing, DedupCandidate } from '../../file-work/tasks.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { Difference } from '../verify/drift.ts';
import type { Manifest } from '../manifest.ts';
import { ContentTable } from './content-table.ts';
import { manifestPaths } from '../inventory.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { publishedTree } from '../published-tree.ts';
import { readManifest } from '../manifest-file.ts';

/** Size and checksum of a content, which tell it apart from most others but not from all. */
export interface Content {
  readonly sizeBytes: number;
  readonly crc32: number;
}

/** Finds files of published trees that hold the same bytes, so that they need not be stored twice. */
export interface DedupCandidates {
  readonly sharing: Sharing;
  /**
   * For each content, published files that may hold it; a caller must read a file before it uses it.
   * @throws MirrorError `disk.failed`
   */
  readonly candidatesOf: (contents: readonly Content[]) => Promise<readonly (readonly DedupCandidate[])[]>;
  /** Takes note of what was published. */
  readonly note: (path: string, manifest: Manifest) => void;
  /**
   * The other targets in whose trees a file stands that was found modified, as a hard link: what was done to it was done to
   * theirs, and their watchers may not know.
   * @throws MirrorError `disk.failed`
   */
  readonly sharersOf: (path: string, differences: readonly Difference[]) => Promise<readonly string[]>;
}

/** Below this a file takes up no more than a block, or little more than its name. */
const LEAST_BYTES = 4096;

/** DedupCandidates that are proposed of one content: of thousands of equal files a few are as good as all. */
const MOST_TWINS = 8;

/** Modified files that are remembered as looked into. */
const MOST_SEARCHED = 1000;

/** Makes a finder; it reads the manifests with the first question. */
export function createDedupCandidates(layout: DirectoryLayout, sharing: Sharing): DedupCandidates {
  let loading: Promise<Known> | null = null;
  let known: Known | null = null;
  const searched = new Set<string>();
  const load = async (): Promise<Known> => {
    const loaded = new Known();
    for (const path of await manifestPaths(layout)) {
      // One that cannot be read proposes nothing; what publishes there tells.
      const manifest = await readManifest(manifestPath(layout, path)).catch(() => null);
      if (manifest !== null) loaded.note(path, manifest);
    }
    known = loaded;
    return loaded;
  };
  return {
    sharing,
    candidatesOf: async (contents) => {
      if (sharing === 'none' || contents.every(({ sizeBytes }) => sizeBytes < LEAST_BYTES))
        return contents.map(() => []);
      loading ??= load().catch((error: unknown) => {
        loading = null;
        throw error;
      });
      return (await loading).find(layout, contents);
    },
    note: (path, manifest) => {
      known?.note(path, manifest);
      if (known?.isOutgrown !== true) return;
      known = null;
      loading = null;
    },
    sharersOf: (path, differences) =>
      onDisk('looking for the other links to a file', () => sharersOf(layout, path, differences, searched)),
  };
}

/** An index of the contents of the published trees. */
class Known {
  private readonly table = new ContentTable();
  private readonly paths: string[] = [];
  private readonly numbers = new Map<string, number>();
  private present = 0;

  /** Whether most entries of the index were replaced by later publishes. */
  get isOutgrown(): boolean {
    return this.table.size > 100_000 && this.table.size > 2 * this.present;
  }

  note(path: string, { files }: Manifest): void {
    const isNew = !this.numbers.has(path);
    const number = this.numbers.get(path) ?? this.paths.push(path) - 1;
    this.numbers.set(path, number);
    if (isNew) this.present += files.length;
    for (const { sizeBytes, crc32 } of files) {
      if (crc32 !== undefined && sizeBytes >= LEAST_BYTES) this.table.add(sizeBytes, crc32, number);
    }
  }

  /** Goes tree by tree, so that each is read once however many contents it may hold. */
  async find(
    layout: DirectoryLayout,
    contents: readonly Content[],
  ): Promise<readonly (readonly DedupCandidate[])[]> {
    const candidates = new Map<string, DedupCandidate[]>();
    const trees = new Set<number>();
    for (const { sizeBytes, crc32 } of contents) {
      for (const tree of this.table.find(sizeBytes, crc32)) {
        candidates.set(contentKey({ sizeBytes, crc32 }), []);
        trees.add(tree);
      }
    }
    for (const tree of trees) {
      const path = this.paths[tree] ?? '';
      const manifest = await readManifest(manifestPath(layout, path)).catch(() => null);
      for (const { path: file, sizeBytes, crc32, sha256 } of manifest?.files ?? []) {
        const alike = candidates.get(contentKey({ sizeBytes, crc32 }));
        if (alike !== undefined && alike.length < MOST_TWINS)
          alike.push({ place: join(publishedTree(layout, path), file), sha256 });
      }
    }
    return contents.map(({ sizeBytes, crc32 }) => candidates.get(contentKey({ sizeBytes, crc32 })) ?? []);
  }
}

/** Tells contents apart as far as their size and checksum do. */
export function contentKey({
  sizeBytes,
  crc32,
}: {
  readonly sizeBytes: number;
  readonly crc32?: number | undefined;
}): string {
  return `${sizeBytes} ${crc32 ?? ''}`;
}

/** Inodes, by the SHA-256 that the file should have. */
type LinkedFiles = ReadonlyMap<string, ReadonlySet<number>>;

async function sharersOf(
  layout: DirectoryLayout,
  path: string,
  differences: readonly Difference[],
  searched: Set<string>,
): Promise<readonly string[]> {
  const links = await linkedFiles(layout, path, differences, searched);
  if (links.size === 0) return [];
  const sharers = new Set<string>();
  for (const other of await manifestPaths(layout)) {
    if (other === path) continue;
    const manifest = await readManifest(manifestPath(layout, other)).catch(() => null);
    for (const file of manifest?.files ?? []) {
      const inodes = links.get(file.sha256);
      if (inodes === undefined) continue;
      const found = await unlessMissing(lstat(join(publishedTree(layout, other), file.path)));
      if (found !== null && inodes.has(found.ino)) sharers.add(other);
    }
  }
  return [...sharers];
}

/** The modified files of a tree that have other names, as far as these were not looked for since the modification. */
async function linkedFiles(
  layout: DirectoryLayout,
  path: string,
  differences: readonly Difference[],
  searched: Set<string>,
): Promise<LinkedFiles> {
  const modified = new Set(differences.filter(({ kind }) => kind === 'modified').map((each) => each.path));
  const links = new Map<string, Set<number>>();
  if (modified.size === 0) return links;
  const manifest = await readManifest(manifestPath(layout, path));
  for (const file of manifest?.files ?? []) {
    if (!modified.has(file.path)) continue;
    const found = await unlessMissing(lstat(join(publishedTree(layout, path), file.path)));
    if (found?.isFile() !== true || found.nlink < 2) continue;
    // All that share a file are looked at one after the other, and each would look for the others again.
    const state = `${found.ino} ${found.size} ${found.mtimeMs} ${found.mode}`;
    if (searched.has(state)) continue;
    if (searched.size >= MOST_SEARCHED) searched.clear();
    searched.add(state);
    const inodes = links.get(file.sha256) ?? new Set();
    links.set(file.sha256, inodes.add(found.ino));
  }
  return links;
}
