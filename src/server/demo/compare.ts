import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { Git } from '../git/git.ts';
import { listFiles } from '../git/objects.ts';
import { readHeads } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';

/** Result of comparing a mirror with Git. */
export interface Comparison {
  /** Number of compared branches. */
  readonly targets: number;
  /** Number of identical files, and their bytes. */
  readonly files: number;
  readonly bytes: number;
  /** One line each; empty when the mirror is exact. */
  readonly differences: readonly string[];
}

/**
 * Compares a mirror with the mirrored repositories, byte for byte.
 * @param directoryOf gives the folder of a branch, by the repository's full name
 * @throws MirrorError when git fails
 */
export async function compareWithGit(
  registry: Registry,
  directoryOf: (repository: string, branch: string) => string,
): Promise<Comparison> {
  const git = new Git();
  const differences: string[] = [];
  let [targets, files, bytes] = [0, 0, 0];
  for (const { id, full_name } of registry.list()) {
    const gitDirectory = registry.gitDirectory(id);
    for (const [branch, head] of await readHeads(git, gitDirectory)) {
      targets += 1;
      const onDisk = await hashFiles(directoryOf(full_name, branch));
      // A mirror leaves out links and submodules.
      for (const { path, id: blobId } of await listFiles(git, gitDirectory, head)) {
        const file = onDisk.get(path);
        onDisk.delete(path);
        if (file?.blobId === blobId) {
          files += 1;
          bytes += file.sizeBytes;
        } else
          differences.push(
            `${full_name}, ${branch}: ${path} ${file === undefined ? 'is missing' : 'has other bytes'}`,
          );
      }
      for (const path of onDisk.keys()) differences.push(`${full_name}, ${branch}: ${path} is not in Git`);
    }
  }
  return { targets, files, bytes, differences };
}

/** Gives the files below a folder, by their paths in it, with Git's ids of their bytes; empty if the folder is missing. */
async function hashFiles(folder: string): Promise<Map<string, { blobId: string; sizeBytes: number }>> {
  const found = new Map<string, { blobId: string; sizeBytes: number }>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])) {
    if (entry.isDirectory()) continue;
    const path = join(entry.parentPath, entry.name);
    const content = await readFile(path);
    const hash = createHash('sha1').update(`blob ${content.length}\0`).update(content);
    found.set(relative(folder, path), { blobId: hash.digest('hex'), sizeBytes: content.length });
  }
  return found;
}
