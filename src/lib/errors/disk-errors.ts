import { basename, dirname, isAbsolute } from 'node:path';

import { mountAt } from '../disk/mounts.ts';
import { ownerText, ownUserText, roomAt } from '../disk/place-facts.ts';
import { roughSize } from '../text/humanize.ts';
import { type ErrorCode, EXHAUSTED_HINT, MirrorError } from './errors.ts';

/** The error code of a failed system call, or nothing if it is no such error. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, errno } = error as NodeJS.ErrnoException;
  // libuv has no names for these.
  if (errno === -122) return 'EDQUOT';
  if (errno === -116) return 'ESTALE';
  return typeof code === 'string' ? code : undefined;
}

/** A failed system call, as described by its error. */
interface FailedCall {
  readonly code: string;
  readonly syscall: string;
  /** Absolute paths, in the order in which the call named them; none if the call was made on an open file and no place is known. */
  readonly paths: readonly string[];
}

/** The cause of a failed call for a person. */
interface Cause {
  /** Follows "Failed while writing a.xlsx: ". */
  readonly what: string;
  readonly hint: string;
  /** `disk.failed` by default. */
  readonly code?: ErrorCode;
}

const AWAY: Cause = {
  what: 'the server of the file system is away, or lost what was open',
  hint: 'Check the mount and its server.',
};

const NO_MORE_FILES: Cause = {
  what: 'no more files can be opened',
  hint: EXHAUSTED_HINT,
  code: 'system.exhausted',
};

/** The one table from a failed call to its cause; null for a code that may have any cause. */
const CAUSES: Readonly<Record<string, (call: FailedCall) => Cause | null>> = {
  ENOSPC: ({ paths }) => outOfRoom(paths),
  EDQUOT: () => ({
    what: 'the quota is used up',
    hint: `Raise the quota of the user, group or project that the directory counts for, or make room.`,
    code: 'disk.full',
  }),
  EXDEV: ({ paths }) => acrossMounts(paths),
  EBUSY: ({ paths }) => acrossMounts(paths),
  EMFILE: () => NO_MORE_FILES,
  ENFILE: () => NO_MORE_FILES,
  ENAMETOOLONG: (call) => unstorableName(call),
  EILSEQ: (call) => unstorableName(call),
  EINVAL: (call) => unstorableName(call),
  EFBIG: ({ paths: [path = ''] }) => ({
    what: `${JSON.stringify(basename(path))} is larger than this file system, or \`ulimit -f\`, lets a file be`,
    hint: 'Put the directory on a file system that takes such files; the target is tried again when it changes.',
    code: 'disk.unstorable',
  }),
  EACCES: (call) => notAllowed(call),
  EPERM: (call) => notAllowed(call),
  EROFS: ({ paths: [path] }) => ({
    what: `${fileSystemOf(path)} is mounted read-only`,
    hint: 'A systemd unit may write only below its StateDirectory= and ReadWritePaths=: see `workbook-mirror help systemd`. Elsewhere, mount it for writing; Linux mounts a disk with errors read-only: look into its log (dmesg).',
  }),
  EIO: ({ paths: [path] }) => ({
    what: `the disk of ${fileSystemOf(path)} reports an error`,
    hint: 'Look into the log of the system (dmesg), and check the disk; afterwards `workbook-mirror verify` finds what it damaged.',
  }),
  ESTALE: () => AWAY,
  ENOTCONN: () => AWAY,
  EHOSTDOWN: () => AWAY,
};

function fileSystemOf(path: string | undefined): string {
  const mount = path === undefined ? null : mountAt(path);
  return mount === null ? 'the file system' : `the file system at ${mount.mountPoint}`;
}

/**
 * Either bytes or inodes are used up; some may be free again, so it was the scarcer of the two.
 * @param paths of the call: the last one is written to
 */
function outOfRoom(paths: readonly string[]): Cause {
  const path = paths.at(-1);
  const room = path === undefined ? null : roomAt(path);
  const place = fileSystemOf(path);
  if (room === null) return { what: `${place} is full`, hint: 'Make room there.', code: 'disk.full' };
  const { freeBytes, totalBytes, freeInodes, totalInodes } = room;
  if (freeInodes / totalInodes < freeBytes / totalBytes)
    return {
      what: `${place} has no inode for another file: ${freeInodes} of its ${totalInodes} inodes are free by now, and ${roughSize(freeBytes)} of room`,
      hint: 'Remove files there, or make a file system with more inodes (mkfs -N; nr_inodes of a tmpfs).',
      code: 'disk.full',
    };
  return {
    what: `${place} is full: ${roughSize(freeBytes)} of its ${roughSize(totalBytes)} are free by now`,
    hint: 'Make a little room there; then `history prune`, or smaller settings history.retired and history.replaced, can free more.',
    code: 'disk.full',
  };
}

/** Files are never renamed or linked from one mount to another, nor is a mount point itself. */
function acrossMounts(paths: readonly string[]): Cause | null {
  const mounts = paths.flatMap((path) => mountAt(path) ?? []);
  const inner = mounts.toSorted((a, b) => b.mountPoint.length - a.mountPoint.length)[0];
  if (inner === undefined) return null;
  const { mountPoint } = inner;
  if (paths.includes(mountPoint) || mounts.some((each) => each.mountPoint !== mountPoint))
    return { what: `${mountPoint} is a mount point of its own`, hint: ONE_FILE_SYSTEM_HINT };
  if (inner.fileSystem === 'overlay')
    return {
      what: 'it lies in a lower layer of an overlay, where no folder can be renamed',
      hint: VOLUME_HINT,
    };
  return null;
}

export const ONE_FILE_SYSTEM_HINT =
  'Everything in the setting directory must be on one file system: unmount what is below it, or mount at the directory itself.';

const VOLUME_HINT = 'Put the setting directory on a volume: data in an image cannot be mirrored into.';

/** Calls that give a file a name. */
const NAMING: ReadonlySet<string> = new Set(['open', 'mkdir', 'link', 'symlink', 'rename', 'copyfile']);

/** Characters and endings that some file systems refuse; for other names EINVAL has another cause. */
// oxlint-disable-next-line no-control-regex -- control characters are among them
const UNUSUAL = /[\u0000-\u001f\u007f-\uffff"*:<>?\\|]|[ .]$/u;

function unstorableName({ code, syscall, paths }: FailedCall): Cause | null {
  const path = paths.at(-1);
  if (path === undefined || !NAMING.has(syscall)) return null;
  const name = path.split('/').find((each) => UNUSUAL.test(each)) ?? basename(path);
  if (code === 'EINVAL' && !UNUSUAL.test(name)) return null;
  const isLong = code === 'ENAMETOOLONG';
  const long = path.split('/').toSorted((a, b) => Buffer.byteLength(b) - Buffer.byteLength(a))[0] ?? '';
  const what = isLong
    ? `the name ${JSON.stringify(long)} (${Buffer.byteLength(long)} bytes), or its path (${Buffer.byteLength(path)} bytes), is longer than this file system takes`
    : `this file system cannot store the name ${JSON.stringify(name)}`;
  return {
    what,
    hint: `Rename it in the service, or put the directory ${isLong ? 'at a shorter path or ' : ''}on another file system; the target is tried again when it changes.`,
    code: 'disk.unstorable',
  };
}

function notAllowed({ syscall, paths }: FailedCall): Cause {
  const folders = paths.map((path) => dirname(path));
  // Other calls change the folders, and need no right on a file in them.
  const owner = ownerText(/^(open|scandir)$/.test(syscall) ? [...paths, ...folders] : [...folders, ...paths]);
  return {
    what: `${owner === null ? '' : `${owner}; `}this program runs as ${ownUserText()}, and is not allowed to`,
    hint: 'Use sudo, or join the group. If a disk is not mounted there, mount it. If no other program uses the place, chown or chmod gives it to this user; lsattr shows what is immutable.',
  };
}

/** The cause of a failed call, if the system reveals it; null if it is uncertain, or for another error. */
export function causeOf(error: unknown, place?: string): Cause | null {
  const code = systemCode(error);
  if (code === undefined || !(error instanceof Error)) return null;
  const { syscall = '', path, dest } = error as NodeJS.ErrnoException & { readonly dest?: string };
  const named = [path, dest].filter((each): each is string => each !== undefined && isAbsolute(each));
  const paths = named.length === 0 && place !== undefined ? [place] : named;
  return CAUSES[code]?.({ code, syscall, paths }) ?? null;
}

/**
 * Turns the error of a system call into a MirrorError; other errors are returned as they are. A disk may fail any call on it, for
 * example if its server is away: that is no defect of this program.
 * @param place the absolute path, for calls on open files
 */
export function diskError(error: unknown, doing: string, place?: string): unknown {
  const code = systemCode(error);
  if (code === undefined || !(error instanceof Error && 'syscall' in error)) return error;
  const cause = causeOf(error, place);
  const what = cause === null ? error.message : `${cause.what} (${code})`;
  return new MirrorError(cause?.code ?? 'disk.failed', `Failed while ${doing}: ${what}.`, {
    cause: error,
    hint:
      cause?.hint ??
      'Check the file system of the setting directory: permissions, read-only mounts and disk errors.',
  });
}

/** Runs a file operation; throws its errors as {@link diskError} makes them. */
export async function onDisk<T>(doing: string, operation: () => Promise<T>, place?: string): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw diskError(error, doing, place);
  }
}

/** Whether an operation failed because a path does not exist. */
export function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Returns null if a path does not exist, and throws everything else. */
export async function unlessMissing<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** As {@link unlessMissing}, for a synchronous operation. */
export function unlessMissingNow<T>(operation: () => T): T | null {
  try {
    return operation();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
