import { diskError, systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** An entry of an archive is not what its directory says. */
export class DamagedEntryError extends Error {
  /** Its place among the entries of the request. */
  readonly index: number;
  /** Goes on where the entry's name ends. */
  readonly fault: string;

  constructor(index: number, fault: string) {
    super(`entry ${index} ${fault}`);
    this.index = index;
    this.fault = fault;
  }
}

/** A task was given up because it was asked to. */
export class StoppedError extends Error {}

/** A system call that failed, and what it was for. */
export class DoingError extends Error {
  readonly doing: string;

  constructor(doing: string, cause: unknown) {
    super(`failed while ${doing}`, { cause });
    this.doing = doing;
  }
}

/** A failure on its way between threads, where an error would lose its code. */
export type WireFailure =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'damaged'; readonly index: number; readonly fault: string }
  | {
      readonly kind: 'system';
      readonly doing: string;
      readonly message: string;
      readonly code: string;
      readonly errno: number | undefined;
      readonly syscall: string | undefined;
    }
  | { readonly kind: 'defect'; readonly message: string; readonly stack: string };

function asSystemError(error: Error): NodeJS.ErrnoException {
  return error;
}

/** Prepares a failure for its way. @param doing what failed where the error does not say */
export function toWire(error: unknown, doing: string): WireFailure {
  if (error instanceof StoppedError) return { kind: 'stopped' };
  if (error instanceof DamagedEntryError) {
    return { kind: 'damaged', index: error.index, fault: error.fault };
  }
  if (error instanceof DoingError) return toWire(error.cause, error.doing);
  if (error instanceof Error && 'syscall' in error && systemCode(error) !== undefined) {
    const { message, code, errno, syscall } = asSystemError(error);
    return { kind: 'system', doing, message, code: code ?? '', errno, syscall };
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { kind: 'defect', message, stack: stack ?? '' };
}

/** The error that a failure is, after its way. */
export function fromWire(failure: WireFailure): Error {
  switch (failure.kind) {
    case 'stopped':
      return new StoppedError('The work was given up.');
    case 'damaged':
      return new DamagedEntryError(failure.index, failure.fault);
    case 'system': {
      const { doing, message, code, errno, syscall } = failure;
      const error = diskError(Object.assign(new Error(message), { code, errno, syscall }), doing);
      return error instanceof Error ? error : new Error(message);
    }
    case 'defect':
      return new MirrorError('internal.defect', failure.message, {
        cause: Object.assign(new Error(failure.message), { stack: failure.stack }),
      });
  }
}
