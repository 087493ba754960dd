import { callError } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';

/** Shared with a thread; a number other than 0 asks it to give its work up. */
export type StopFlag = Int32Array<SharedArrayBuffer>;

/** A task was given up because it was asked to. */
export class StoppedError extends Error {}

/** A system call that failed, and what it was for. */
export class DoingError extends Error {
  readonly doing: string;
  /** The absolute path where it was, if the call does not say. */
  readonly place: string | undefined;

  constructor(doing: string, cause: unknown, place?: string) {
    super(`failed while ${doing}`, { cause });
    this.doing = doing;
    this.place = place;
  }
}

/** A failure on its way between threads, where an error would lose its code. */
export type WireFailure =
  | { readonly kind: 'stopped' }
  | (Pick<MirrorError, 'code' | 'message' | 'hint'> & { readonly kind: 'failed'; readonly stack: string });

/** Prepares a failure for its way. @param doing what failed, and `place` where, if the error does not say */
export function toWire(error: unknown, doing: string, place?: string): WireFailure {
  if (error instanceof StoppedError) return { kind: 'stopped' };
  if (error instanceof DoingError) return toWire(error.cause, error.doing, error.place);
  const { code, message, hint } = toMirrorError(callError(error, doing, place));
  return {
    kind: 'failed',
    code,
    message,
    hint,
    stack: (error instanceof Error ? error.stack : undefined) ?? '',
  };
}

/** The error that a failure is, after its way. */
export function fromWire(failure: WireFailure): Error {
  if (failure.kind === 'stopped') return new StoppedError('The work was given up.');
  const { code, message, hint, stack } = failure;
  const cause = Object.assign(new Error(message), { stack });
  return new MirrorError(code, message, { ...(hint === undefined ? {} : { hint }), cause });
}
