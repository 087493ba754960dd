import { constants } from 'node:os';

import type { LibraryHandle } from 'koffi';

import { declare, lastError, openLibc, systemError } from './library.ts';

/** The system calls on files that Node lacks. Each throws an error with a `code`, as Node's own file calls do. */
export type NativeCalls = ReturnType<typeof bindNativeCalls>;

/** The ACL that a folder has itself, or the one that it gives to new entries (acl(5)). */
type AclKind = 'access' | 'default';

const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
const LOCK_SH_NB = 1 | 4;
const LOCK_EX_NB = 2 | 4;
const LOCK_UN = 8;

/** The numbers by which a lock is refused that another process has; the first has two names. */
const TAKEN: ReadonlySet<number> = new Set([constants.errno.EWOULDBLOCK, constants.errno.EACCES]);

/** Binds the calls in the C library of this process. */
export function bindNativeCalls() {
  const libc = openLibc();
  const syncfs = libc.func('int syncfs(int fd)');
  const flock = libc.func('int flock(int fd, int operation)');
  const renameat2 = declare(
    libc,
    'int renameat2(int olddirfd, const char *oldpath, int newdirfd, const char *newpath, unsigned int flags)',
  );
  const lock = (fd: number, operation: number): boolean => {
    if (flock(fd, operation) === 0) return true;
    const error = lastError('flock');
    if (TAKEN.has(-(error.errno ?? 0))) return false;
    throw error;
  };
  return {
    /** Swaps two names in one step: Linux `renameat2(2)` with RENAME_EXCHANGE. */
    exchange: (one: string, other: string): void => {
      // As a file system reports it that cannot do this.
      if (renameat2 === null) throw systemError('renameat2', constants.errno.ENOSYS);
      if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) !== 0)
        throw Object.assign(lastError('renameat2'), { path: one, dest: other });
    },
    /** Flushes everything written to the file system that an open file lies on: Linux `syncfs(2)`. */
    syncFileSystem: (fd: number): Promise<void> =>
      new Promise((resolve, reject) => {
        syncfs.async(fd, (error: unknown, result: number) => {
          if (error instanceof Error) reject(error);
          else if (result === 0) resolve();
          else reject(lastError('syncfs'));
        });
      }),
    /** Takes an exclusive lock that ends with the process, or returns false if another process has it: `flock(2)`. */
    tryLock: (fd: number): boolean => lock(fd, LOCK_EX_NB),
    /** As `tryLock`, for a lock that many may share, but that excludes an exclusive one. */
    tryLockShared: (fd: number): boolean => lock(fd, LOCK_SH_NB),
    /** Releases a lock: `flock(2)`. */
    unlock: (fd: number): void => void lock(fd, LOCK_UN),
    ...bindAclCalls(libc),
  };
}

/** The most bytes of an extended attribute (xattr(7)). */
const MAX_ATTRIBUTE_BYTES = 65_536;

function bindAclCalls(libc: LibraryHandle) {
  const get = libc.func('long getxattr(const char *path, const char *name, void *value, size_t size)');
  const set = libc.func(
    'int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)',
  );
  const remove = libc.func('int removexattr(const char *path, const char *name)');
  const nameOf = (kind: AclKind): string => `system.posix_acl_${kind}`;
  const value = Buffer.alloc(MAX_ATTRIBUTE_BYTES);
  return {
    /** An ACL of a folder, as the kernel stores it (acl(5)); null if it has none, or the file system does not say. */
    acl: (folder: string, kind: AclKind): Buffer | null => {
      const length = Number(get(folder, nameOf(kind), value, value.length));
      return length > 0 ? Buffer.from(value.subarray(0, length)) : null;
    },
    /** Sets the ACL of a folder, or removes it. */
    setAcl: (folder: string, kind: AclKind, acl: Buffer | null): void => {
      if (acl === null) remove(folder, nameOf(kind));
      else if (set(folder, nameOf(kind), acl, acl.length, 0) !== 0)
        throw Object.assign(lastError('setxattr'), { path: folder });
    },
  };
}
