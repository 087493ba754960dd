import { accessSync, constants, lstatSync, readFileSync, statfsSync, type StatsFs, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';

/*
 * Facts about a place that explain why a call failed there. They are read after the failure, so each may be unknown (null), and
 * none throws.
 */

/** Room in a file system, in bytes, and its inodes; 0 of 0 inodes if it has no fixed number. */
export interface Room {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeInodes: number;
  readonly totalInodes: number;
}

/** The room at a path, which need not exist. */
export function roomAt(path: string): Room | null {
  const found = firstAbove(path, (each): StatsFs => statfsSync(each));
  if (found === null) return null;
  const { bavail, blocks, bsize, ffree, files } = found.value;
  return {
    freeBytes: bavail * bsize,
    totalBytes: blocks * bsize,
    freeInodes: ffree,
    totalInodes: files,
  };
}

/**
 * Names the first of the paths, or their parent folders, that keeps this user out, with its owner and mode:
 * `/data/mirror belongs to user 0 (root), group 0 (root), mode 0755`.
 */
export function ownerText(paths: readonly string[]): string | null {
  const found = paths.flatMap((path) => {
    const existing = firstAbove(path, (each) => lstatSync(each));
    return existing === null ? [] : [existing];
  });
  const place = found.find(({ path }) => !isWritable(path)) ?? found[0];
  if (place === undefined) return null;
  const { uid, gid, mode } = place.value;
  const [user, group] = [nameIn('/etc/passwd', uid), nameIn('/etc/group', gid)];
  return `${place.path} belongs to user ${uid}${user}, group ${gid}${group}, mode ${(mode & 0o7777).toString(8).padStart(4, '0')}`;
}

/** The name of a number in a list of users or groups: ` (root)`; nothing if it is not there. */
function nameIn(list: string, id: number): string {
  try {
    const lines = readFileSync(list, 'utf8').split('\n');
    const [name] = lines.map((line) => line.split(':')).find(([, , each]) => each === String(id)) ?? [];
    return name === undefined ? '' : ` (${name})`;
  } catch {
    return '';
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** The user that makes the calls: `user 1000 (mirror), group 1000`. */
export function ownUserText(): string {
  const [uid, gid] = [process.geteuid?.(), process.getegid?.()];
  const name = ownUserName();
  return `user ${uid}${name === null ? '' : ` (${name})`}, group ${gid}`;
}

/** The name of the user of this process; null for a number without a name, as in containers. */
export function ownUserName(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}

/** A path, or the nearest folder above it that exists. */
export function existingAbove(path: string): string {
  return firstAbove(path, (each) => statSync(each))?.path ?? path;
}

/** Looks up a fact about a path or, if that fails, about the folders above it in turn. */
function firstAbove<T>(
  path: string,
  ask: (path: string) => T,
): { readonly path: string; readonly value: T } | null {
  for (let place = path; ; place = dirname(place)) {
    try {
      return { path: place, value: ask(place) };
    } catch {
      if (dirname(place) === place) return null;
    }
  }
}
