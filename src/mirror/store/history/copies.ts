import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';

import { manifestPaths } from '../inventory.ts';
import { targetKey } from '../../upstream/listing.ts';
import { readHistory } from './history.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { publishedTree } from '../published-tree.ts';
import { readManifest } from '../manifest-file.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';

/** Finds files that hold certain bytes; what is found was read, every byte. */
export type FindCopy = (sha256: string) => Promise<string | null>;

/** A tree, whole or in part, and where its manifest is. Absolute. */
interface TreeWithManifest {
  readonly tree: string;
  readonly manifest: string;
}

/** Where the bytes of some trees are. */
interface Places {
  /** Absolute places of files, by the SHA-256 that they should have. */
  readonly bySha256: ReadonlyMap<string, readonly string[]>;
  /** Keys of the targets that the trees are of. */
  readonly targets: ReadonlySet<string>;
}

/**
 * Looks for intact copies of a target's files: in its published tree and in all that the history keeps of it, also under the path that
 * it had, or has, as another name of its repository.
 * @param path the target, as below `mirror/`
 */
export async function findCopies(layout: DirectoryLayout, path: string): Promise<FindCopy> {
  const near = await placesIn(await treesOf(layout, [path], path));
  let far: Promise<Places> | null = null;
  const elsewhere = async (): Promise<Places> =>
    placesIn(await treesOf(layout, await manifestPaths(layout), ''), near.targets);
  return async (sha256) => (await intactIn(near, sha256)) ?? intactIn(await (far ??= elsewhere()), sha256);
}

/** The published trees of targets, and what the history keeps below a path. */
async function treesOf(
  layout: DirectoryLayout,
  targets: readonly string[],
  below: string,
): Promise<readonly TreeWithManifest[]> {
  const published = targets.map((path) => ({
    tree: publishedTree(layout, path),
    manifest: manifestPath(layout, path),
  }));
  const kept = await readHistory(layout, below);
  return [...published, ...(below === '' ? kept : kept.filter(({ path }) => path === below))];
}

/** @param only keys of the targets whose trees count; of all unless given */
async function placesIn(
  trees: readonly TreeWithManifest[],
  only: ReadonlySet<string> | null = null,
): Promise<Places> {
  const bySha256 = new Map<string, string[]>();
  const targets = new Set<string>();
  for (const { tree, manifest } of trees) {
    const found = await readManifest(manifest);
    if (found === null) continue;
    const key = targetKey({ repositoryId: found.repository.id, branch: found.branch });
    if (only?.has(key) === false) continue;
    targets.add(key);
    for (const file of found.files) {
      const known = bySha256.get(file.sha256);
      if (known === undefined) bySha256.set(file.sha256, [join(tree, file.path)]);
      else known.push(join(tree, file.path));
    }
  }
  return { bySha256, targets };
}

async function intactIn({ bySha256 }: Places, sha256: string): Promise<string | null> {
  for (const place of bySha256.get(sha256) ?? []) if ((await digestOf(place)) === sha256) return place;
  return null;
}

/** SHA-256 of a plain file in hexadecimal digits; null where none can be read. */
export async function digestOf(file: string): Promise<string | null> {
  try {
    const handle = await open(file, READ_FLAGS);
    try {
      if (!(await handle.stat()).isFile()) return null;
      const hash = createHash('sha256');
      const chunks: AsyncIterable<unknown> = handle.createReadStream({ autoClose: false });
      for await (const chunk of chunks) if (chunk instanceof Uint8Array) hash.update(chunk);
      return hash.digest('hex');
    } finally {
      await handle.close();
    }
  } catch {
    return null;
  }
}
