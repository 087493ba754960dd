import { readFileSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** A file system where it is mounted. */
export interface Mount {
  /** Absolute. */
  readonly mountPoint: string;
  /** The type, with a subtype where it has one: `ext4`, `nfs4`, `fuse.sshfs`. */
  readonly fileSystem: string;
  /** The options of the mount and of the file system: `rw`, `local_lock=none`. */
  readonly options: ReadonlySet<string>;
}

/** The mounts that this process sees (proc_pid_mountinfo(5)). */
const MOUNT_TABLE = '/proc/self/mountinfo';

/**
 * Reads a table of mounts as the kernel writes it: the fields that we need are the fifth and sixth, and, after a `-`, the first and
 * third (proc_pid_mountinfo(5)). Lines of another form are left out.
 * @returns in the order in which they were mounted
 */
export function parseMounts(table: string): Mount[] {
  return table.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , , mountPoint, options = ''] = before.split(' ');
    const [fileSystem, , more = ''] = after.split(' ');
    if (mountPoint === undefined || fileSystem === undefined || fileSystem === '') return [];
    return [
      {
        mountPoint: unescaped(mountPoint),
        fileSystem: unescaped(fileSystem),
        options: new Set(`${options},${more}`.split(',')),
      },
    ];
  });
}

/** Space, tab, line feed and backslash are written as octal numbers. */
function unescaped(field: string): string {
  return field.replaceAll(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCodePoint(Number.parseInt(digits, 8)),
  );
}

/**
 * The mount that a path lies on: the one with the longest mount point; if several have the same, the last, which covers the others.
 * @param path absolute and without links
 */
export function mountOf(mounts: readonly Mount[], path: string): Mount | null {
  const isAround = ({ mountPoint }: Mount): boolean => `${path}/`.startsWith(mountPoint.replace(/\/?$/, '/'));
  const inward = mounts.filter(isAround).toSorted((a, b) => a.mountPoint.length - b.mountPoint.length);
  return inward.at(-1) ?? null;
}

/** The mount that an absolute path without links lies on; null if the system does not say. */
export function mountAt(path: string): Mount | null {
  return mountOf(mountsNow(), path);
}

/** The mount points below an absolute path without links. */
export function mountPointsBelow(folder: string): string[] {
  const points = mountsNow().map(({ mountPoint }) => mountPoint);
  return [...new Set(points)].filter((point) => point.startsWith(`${folder}/`));
}

/** None if the system does not say. */
function mountsNow(): Mount[] {
  try {
    return parseMounts(readFileSync(MOUNT_TABLE, 'utf8'));
  } catch {
    return [];
  }
}

/** The mount that a folder lies on, or will lie on once it is made; null if the system does not say. */
export async function findMount(folder: string): Promise<Mount | null> {
  const path = await resolvedPath(folder).catch(() => null);
  return path === null ? null : mountAt(path);
}

/** A path without links, as far as it exists. */
export async function resolvedPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    return join(await resolvedPath(dirname(path)), basename(path));
  }
}
