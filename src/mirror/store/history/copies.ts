import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';

import type { ManifestFile } from '../manifest.ts';
import { type HistoryEntry, readHistory } from './history.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { publishedTree } from '../published-tree.ts';
import { readManifest } from '../manifest-file.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';

/** Finds files that hold certain bytes; what is found was read, every byte. */
export type FindCopy = (sha256: string) => Promise<string | null>;

/**
 * Looks for intact copies of a target's files: in its published tree and in all trees that the history keeps of it.
 * @param path the target, as below `mirror/`
 */
export async function findCopies(layout: DirectoryLayout, path: string): Promise<FindCopy> {
  const places = new Map<string, string[]>();
  const add = (tree: string, files: readonly ManifestFile[]): void => {
    for (const file of files) {
      const known = places.get(file.sha256);
      if (known === undefined) places.set(file.sha256, [join(tree, file.path)]);
      else known.push(join(tree, file.path));
    }
  };
  add(publishedTree(layout, path), (await readManifest(manifestPath(layout, path)))?.files ?? []);
  const isOfTarget = (entry: HistoryEntry): boolean => entry.path === path;
  for (const { tree, manifest } of (await readHistory(layout)).filter(isOfTarget)) {
    add(tree, (await readManifest(manifest))?.files ?? []);
  }
  return async (sha256) => {
    for (const place of places.get(sha256) ?? []) if ((await digestOf(place)) === sha256) return place;
    return null;
  };
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
