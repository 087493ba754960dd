import koffi, { type LibraryHandle } from 'koffi';

type NativeFunction = ReturnType<LibraryHandle['func']>;

/** The three system calls that Node lacks. Each throws an error with a `code`, as Node's own file calls do. */
export interface NativeCalls {
  /** Swaps two names in one step: Linux `renameat2(2)` with RENAME_EXCHANGE. */
  readonly exchange: (one: string, other: string) => void;
  /** Flushes everything written to the file system that an open file lies on: Linux `syncfs(2)`, elsewhere `sync(2)`. */
  readonly syncFileSystem: (fd: number) => Promise<void>;
  /** Takes an exclusive lock that ends with the process, or says that somebody else has it: `flock(2)`. */
  readonly tryLock: (fd: number) => boolean;
}

const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
const LOCK_EX_NB = 2 | 4;

const ERROR_NAMES = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [number, name]));

function systemError(call: string, errno: number): NodeJS.ErrnoException {
  const code = ERROR_NAMES.get(errno) ?? 'UNKNOWN';
  return Object.assign(new Error(`${code}: ${call} failed (errno ${errno})`), {
    code,
    errno: -errno,
    syscall: call,
  });
}

/** Says that this system has no such call, in the words of a file system that does not take it. */
function absent(call: string): never {
  throw systemError(call, koffi.os.errno['ENOSYS'] ?? 38);
}

function declare(library: LibraryHandle, prototype: string): NativeFunction | null {
  try {
    return library.func(prototype);
  } catch {
    return null;
  }
}

/** Binds the calls in the C library that this process runs on already. */
export function bindNativeCalls(): NativeCalls {
  const libc = koffi.load(null);
  const renameat2 = declare(
    libc,
    'int renameat2(int olddirfd, const char *oldpath, int newdirfd, const char *newpath, unsigned int flags)',
  );
  const syncfs = declare(libc, 'int syncfs(int fd)');
  const sync = declare(libc, 'void sync(void)');
  const flock = declare(libc, 'int flock(int fd, int operation)');
  return {
    exchange: (one, other) => {
      if (renameat2 === null) absent('renameat2');
      const failed = renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) !== 0;
      if (failed) throw systemError('renameat2', koffi.errno());
    },
    syncFileSystem: (fd) =>
      new Promise((resolve, reject) => {
        if (syncfs === null) {
          (sync ?? absent('syncfs')).async((error: unknown) =>
            error instanceof Error ? reject(error) : resolve(),
          );
          return;
        }
        syncfs.async(fd, (error: unknown, result: number) => {
          if (error instanceof Error) reject(error);
          else if (result === 0) resolve();
          else reject(systemError('syncfs', koffi.errno()));
        });
      }),
    tryLock: (fd) => {
      if (flock === null) absent('flock');
      if (flock(fd, LOCK_EX_NB) === 0) return true;
      const errno = koffi.errno();
      if (errno === koffi.os.errno['EWOULDBLOCK'] || errno === koffi.os.errno['EAGAIN']) return false;
      throw systemError('flock', errno);
    },
  };
}
