import { MirrorError } from './errors.ts';

/** The error code of a failed system call, or nothing if it is no such error. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, errno } = error as NodeJS.ErrnoException;
  if (code === 'UNKNOWN' && errno === -122) return 'EDQUOT';
  // libuv has no name for it.
  if (errno === -116) return 'ESTALE';
  return typeof code === 'string' ? code : undefined;
}

const FULL = new Set(['ENOSPC', 'EDQUOT']);

/** Turns a failed file operation into an error of ours; other errors are given back as they are. */
export function diskError(error: unknown, doing: string): unknown {
  if (error instanceof MirrorError) return error;
  const code = systemCode(error);
  if (code === undefined || !(error instanceof Error)) return error;
  if (FULL.has(code)) {
    return new MirrorError('disk.full', `No space left while ${doing} (${code}).`, {
      cause: error,
      hint: 'Make room in the file system of the setting directory, or raise its quota; the pull is repeated by itself.',
    });
  }
  return new MirrorError('disk.failed', `Failed while ${doing}: ${error.message}.`, {
    cause: error,
    hint: 'Check the file system of the setting directory: permissions, read-only mounts and disk errors.',
  });
}

/**
 * As {@link diskError} for a system call that failed where nobody said what it was for; other errors are given back as they are. A disk
 * may fail any call on it, as one does whose server is away: that is no defect of this program.
 */
export function callError(error: unknown, doing: string): unknown {
  return error instanceof Error && 'syscall' in error ? diskError(error, doing) : error;
}

/** Runs a file operation; what fails in it is thrown as an error of ours. */
export async function onDisk<T>(doing: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw diskError(error, doing);
  }
}

/** Whether an operation failed as a path does not exist. */
export function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Gives null where a path does not exist, and throws everything else. */
export async function unlessMissing<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** As {@link unlessMissing}, of an operation that everything else waits for. */
export function unlessMissingNow<T>(operation: () => T): T | null {
  try {
    return operation();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
