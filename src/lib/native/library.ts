import koffi, { type LibraryHandle } from 'koffi';

/** A function of the C library. */
export type NativeFunction = ReturnType<LibraryHandle['func']>;

const ERROR_NAMES = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [number, name]));

/** The C library of this process. */
export function openLibc(): LibraryHandle {
  return koffi.load(null);
}

/** Declares a function by its C prototype; null if the library has no such function, as some have not all. */
export function declare(library: LibraryHandle, prototype: string): NativeFunction | null {
  try {
    return library.func(prototype);
  } catch {
    return null;
  }
}

/** The error of the call just made, with a `code`, as Node's own calls have it. */
export function lastError(call: string): NodeJS.ErrnoException {
  return systemError(call, koffi.errno());
}

/** Makes the error of a call, from the number of the system. */
export function systemError(call: string, errno: number): NodeJS.ErrnoException {
  const code = ERROR_NAMES.get(errno) ?? 'UNKNOWN';
  return Object.assign(new Error(`${code}: ${call} failed (errno ${errno})`), {
    code,
    errno: -errno,
    syscall: call,
  });
}
