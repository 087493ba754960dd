import koffi, { type LibraryHandle } from 'koffi';

/** A function of the C library. */
export type NativeFunction = ReturnType<LibraryHandle['func']>;

const ERROR_NAMES = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [number, name]));

/** The C library of this process. */
export function openLibc(): LibraryHandle {
  return koffi.load(null);
}

/** Declares a function by its C prototype; null if the library has no such function. */
export function declare(library: LibraryHandle, prototype: string): NativeFunction | null {
  try {
    return library.func(prototype);
  } catch {
    return null;
  }
}

/** The number of an error of the system, such as `EAGAIN`. */
export function errnoOf(name: string): number | undefined {
  return koffi.os.errno[name];
}

/** The error of the call just made, with a `code`, as Node's own calls have it. */
export function lastError(call: string): NodeJS.ErrnoException {
  return systemError(call, koffi.errno());
}

/** Reports that this system lacks a call, as a file system does that does not support it. */
export function absent(call: string): never {
  throw systemError(call, errnoOf('ENOSYS') ?? 38);
}

function systemError(call: string, errno: number): NodeJS.ErrnoException {
  const code = ERROR_NAMES.get(errno) ?? 'UNKNOWN';
  return Object.assign(new Error(`${code}: ${call} failed (errno ${errno})`), {
    code,
    errno: -errno,
    syscall: call,
  });
}
