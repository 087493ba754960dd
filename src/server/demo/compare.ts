import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, resolve, sep } from 'node:path';

import { Git } from '../git/git.ts';
import { readHeads } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';
import type { Repository } from '../http/library.ts';
import { listTree } from '../git/objects.ts';

export interface Comparison {
  /** Branches that were compared. */
  readonly targets: number;
  /** Files that Git holds. */
  readonly files: number;
  /** Bytes that were read from the disk. */
  readonly bytes: number;
  /** Symbolic links and submodules of Git: a mirror leaves them out. */
  readonly leftOut: number;
  /** One line each; empty when the mirror is exact. */
  readonly differences: readonly string[];
}

/**
 * Says where the mirror keeps a branch.
 * @returns a path, absolute or below the mirror directory
 */
export type PathOf = (repository: Repository, branch: string) => string;

/** Lists everything below a directory that is no directory, relative and with slashes; true stands for a plain file. */
async function listDisk(directory: string): Promise<Map<string, boolean>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found = new Map<string, boolean>();
  for (const entry of entries) {
    if (entry.isDirectory()) continue;
    const path = relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/');
    found.set(path, entry.isFile());
  }
  return found;
}

/** Gives a file's length and the id that Git has for its bytes: the SHA-1 of `blob`, the length and the bytes. */
async function hashFile(path: string): Promise<{ id: string; sizeBytes: number }> {
  const { size } = await stat(path);
  const hash = createHash('sha1').update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk);
  return { id: hash.digest('hex'), sizeBytes: size };
}

async function compareTree(
  git: Git,
  gitDirectory: string,
  head: string,
  directory: string,
): Promise<Omit<Comparison, 'targets'>> {
  const entries = await listTree(git, gitDirectory, head);
  const files = entries.filter(({ kind }) => kind === 'file');
  const disk = await listDisk(directory).catch(() => null);
  if (disk === null)
    return { files: files.length, bytes: 0, leftOut: 0, differences: ['the tree is missing'] };
  const differences: string[] = [];
  let bytes = 0;
  for (const { path, id } of files) {
    const plain = disk.get(path);
    disk.delete(path);
    if (plain === undefined) differences.push(`${path} is missing`);
    else if (plain) {
      const actual = await hashFile(join(directory, path));
      bytes += actual.sizeBytes;
      if (actual.id !== id) differences.push(`${path} has other bytes`);
    } else differences.push(`${path} is no plain file`);
  }
  for (const path of disk.keys()) differences.push(`${path} is not in Git`);
  return { files: files.length, bytes, leftOut: entries.length - files.length, differences };
}

/**
 * Compares a mirror with the repositories that it is a mirror of, byte for byte.
 * @param mirrorDirectory directory of the mirror
 * @param pathOf where in it each branch is
 * @throws MirrorError when git fails
 */
export async function compareWithGit(
  registry: Registry,
  mirrorDirectory: string,
  pathOf: PathOf,
): Promise<Comparison> {
  const git = new Git();
  const total = { targets: 0, files: 0, bytes: 0, leftOut: 0, differences: new Array<string>() };
  for (const repository of registry.list()) {
    const gitDirectory = registry.gitDirectory(repository.id);
    const heads = await readHeads(git, gitDirectory);
    for (const [branch, head] of heads) {
      const directory = resolve(mirrorDirectory, pathOf(repository, branch));
      const found = await compareTree(git, gitDirectory, head, directory);
      total.targets += 1;
      total.files += found.files;
      total.bytes += found.bytes;
      total.leftOut += found.leftOut;
      total.differences.push(
        ...found.differences.map((line) => `${repository.full_name}, ${branch}: ${line}`),
      );
    }
  }
  return total;
}
