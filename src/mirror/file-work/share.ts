import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  futimesSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  type Stats,
  unlinkSync,
  utimesSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import type { FileFacts, LinkRequest, LinkResult, Sharing } from './tasks.ts';

/** Makes something at a path, and the folders around it where they are missing. */
export function makingFolder<T>(path: string, make: (path: string) => T): T {
  try {
    return make(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    return make(path);
  }
}

/** Errors of a file system that has no hard links, or no more of them (link(2)). */
export const NO_LINKS: ReadonlySet<string | undefined> = new Set([
  'EPERM',
  'ENOTSUP',
  'ENOSYS',
  'EMLINK',
  'EXDEV',
]);

/** Links files of one tree into another; one that can have no more names, or none at all, is copied. @throws Error of the disk */
export function linkAll({ from, to, paths, facts }: LinkRequest): LinkResult {
  let changed: string | null = null;
  for (const [index, path] of paths.entries()) {
    const source = join(from, path);
    const destination = join(to, path);
    makingFolder(destination, () => {
      try {
        linkSync(source, destination);
      } catch (error) {
        if (!NO_LINKS.has(systemCode(error)) || !lstatSync(source).isFile()) throw error;
        copy(source, destination);
      }
    });
    if (facts !== null && changed === null && !isAsItWas(lstatSync(destination), facts, index))
      changed = path;
  }
  return { changed };
}

function isAsItWas(found: Stats, { sizesBytes, modes, mtimesMs }: FileFacts, index: number): boolean {
  return (
    found.isFile() &&
    found.size === sizesBytes[index] &&
    (found.mode & 0o7777) === modes[index] &&
    Math.round(found.mtimeMs) === mtimesMs[index]
  );
}

function copy(source: string, destination: string): void {
  const { atime, mtime } = lstatSync(source);
  copyFileSync(source, destination, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  utimesSync(destination, atime, mtime);
}

/** The properties of a file that is to share its storage. */
interface Wanted {
  readonly sharing: Sharing;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** Permission bits. */
  readonly mode: number;
  /** SHA-256, in hexadecimal digits. */
  readonly sha256: string;
}

/** How a file that shares its storage with another one is made: the first way that the file system knows. */
const WAYS: Readonly<Record<Sharing, readonly ('clone' | 'link')[]>> = {
  none: [],
  blocks: ['clone'],
  'blocks-or-links': ['clone', 'link'],
};

const CHUNK_BYTES = 1024 * 1024;

/** File systems have no more than 65,000 names for a file (ext4), and every tree that replaces one needs some. */
const MOST_LINKS = 1000;

/** Errors of a file system that cannot share so (ioctl_ficlone(2), link(2)), or of a candidate that is gone. */
const CANNOT: ReadonlySet<string | undefined> = new Set([
  'EOPNOTSUPP',
  'ENOTSUP',
  'ENOSYS',
  'ENOTTY',
  'EINVAL',
  'EXDEV',
  'EPERM',
  'EACCES',
  'EMLINK',
  'ENOENT',
  'ENOTDIR',
  'ETXTBSY',
]);

/**
 * Makes a file that shares its storage with one of its candidates. What was made is read and compared before it counts: a candidate may
 * hold something else than it should.
 * @returns the permission bits of the file; null where none was made
 * @throws Error of the disk
 */
export function shareContent(
  candidates: readonly string[],
  destination: string,
  wanted: Wanted,
): number | null {
  for (const way of WAYS[wanted.sharing]) {
    for (const candidate of candidates) {
      const mode = shareOne(way, candidate, destination, wanted);
      if (mode !== null) return mode;
    }
  }
  return null;
}

function shareOne(
  way: 'clone' | 'link',
  candidate: string,
  destination: string,
  wanted: Wanted,
): number | null {
  const source = opened(candidate);
  if (source === null) return null;
  try {
    const { ino, nlink } = fstatSync(source);
    if (!isLike(way, source, wanted) || nlink > MOST_LINKS) return null;
    if (!isMade(() => make(way, source, candidate, destination))) return null;
    const isRight = isWhatItShouldBe(way, destination, ino, wanted);
    if (!isRight) unlinkSync(destination);
    return isRight ? wanted.mode : null;
  } finally {
    closeSync(source);
  }
}

/** Opens a file without following a link, and without waiting for the other end of what may be a pipe by now (open(2)). */
function opened(path: string): number | null {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // Whatever is wrong with a candidate is the trouble of its own target.
    return null;
  }
}

/** Whether a file is a plain one and would have the right facts; a clone gets its time afterwards. */
function isLike(way: 'clone' | 'link', fd: number, { mtimeMs, mode }: Wanted): boolean {
  const found = fstatSync(fd);
  return (
    found.isFile() &&
    (found.mode & 0o7777) === mode &&
    (way === 'clone' || Math.round(found.mtimeMs) === mtimeMs)
  );
}

function make(way: 'clone' | 'link', source: number, candidate: string, destination: string): void {
  makingFolder(destination, (path) => {
    if (way === 'link') linkSync(candidate, path);
    else
      copyFileSync(
        placeOf(source, candidate),
        path,
        constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL,
      );
  });
}

/** A name of the very file that is open, where the system has such (proc(5)): under its own name may be another one by now. */
function placeOf(fd: number, path: string): string {
  return process.platform === 'linux' ? `/proc/self/fd/${fd}` : path;
}

/** @throws what is wrong with the place of the new file */
function isMade(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (CANNOT.has(systemCode(error))) return false;
    throw error;
  }
}

function isWhatItShouldBe(way: 'clone' | 'link', made: string, inode: number, wanted: Wanted): boolean {
  const fd = opened(made);
  if (fd === null) return false;
  try {
    const { ino, gid } = fstatSync(fd);
    // A link keeps its group, which may let in others than a file that is made there.
    if (way === 'link' && (ino !== inode || gid !== groupIn(dirname(made)))) return false;
    if (!isLike(way, fd, wanted) || digestOf(fd) !== wanted.sha256) return false;
    if (way === 'clone') futimesSync(fd, wanted.mtimeMs / 1000, wanted.mtimeMs / 1000);
    return true;
  } catch {
    return false;
  } finally {
    closeSync(fd);
  }
}

/** The group of files that are made in a folder (inode(7), "The set-group-ID bit"). */
function groupIn(folder: string): number | undefined {
  const { mode, gid } = lstatSync(folder);
  return (mode & 0o2000) === 0 ? process.getegid?.() : gid;
}

function digestOf(fd: number): string {
  const digest = createHash('sha256');
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, fstatSync(fd).size + 1));
  for (let bytesRead = readSync(fd, buffer); bytesRead > 0; bytesRead = readSync(fd, buffer)) {
    digest.update(buffer.subarray(0, bytesRead));
  }
  return digest.digest('hex');
}
