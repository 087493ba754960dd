/**
 * The daemon's reaction to an error.
 *
 * - `retry`: tried again automatically, later each time (back off).
 * - `hold`: nothing is wrong, it is deliberately not done yet.
 * - `quarantine`: this version of this target is bad; tried again when it changes, or after an hour.
 * - `stall`: waits for an operator; tried again at a slow, steady pace.
 * - `exit`: the program cannot work at all and ends.
 */
export type ErrorAction = 'retry' | 'hold' | 'quarantine' | 'stall' | 'exit';

/** Exit codes of `sync`, of `run` when it ends, and of every other command (manual, "Exit codes"). */
export const EXIT_CODES = {
  ok: 0,
  incomplete: 1,
  usage: 2,
  service: 3,
  locked: 4,
  defect: 70,
} as const;

/** One of {@link EXIT_CODES}. */
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

interface ErrorRule {
  readonly action: ErrorAction;
  /** The exit code of a command that this error ends. */
  readonly exitCode: ExitCode;
}

/** The one table of error codes: the daemon's reaction, and the exit code of a command. */
export const ERROR_RULES = {
  'usage.invalid': { action: 'exit', exitCode: 2 },
  'settings.invalid': { action: 'exit', exitCode: 2 },
  'directory.unusable': { action: 'exit', exitCode: 2 },
  'directory.locked': { action: 'exit', exitCode: 4 },
  'directory.taken': { action: 'exit', exitCode: 1 },
  'directory.other_service': { action: 'stall', exitCode: 1 },
  'directory.replaced': { action: 'retry', exitCode: 1 },
  'daemon.absent': { action: 'exit', exitCode: 2 },
  'credentials.refused': { action: 'stall', exitCode: 3 },
  'service.unreachable': { action: 'retry', exitCode: 3 },
  'service.timeout': { action: 'retry', exitCode: 3 },
  'service.busy': { action: 'retry', exitCode: 3 },
  'service.failed': { action: 'retry', exitCode: 3 },
  'service.wrong_kind': { action: 'stall', exitCode: 3 },
  'service.not_found': { action: 'stall', exitCode: 3 },
  'service.redirected': { action: 'stall', exitCode: 3 },
  'service.answer_too_large': { action: 'stall', exitCode: 3 },
  'listing.malformed': { action: 'retry', exitCode: 3 },
  'listing.inconsistent': { action: 'retry', exitCode: 3 },
  'contents.not_found': { action: 'retry', exitCode: 1 },
  'contents.forbidden': { action: 'stall', exitCode: 1 },
  'contents.wrong_kind': { action: 'retry', exitCode: 1 },
  'contents.contradicted': { action: 'retry', exitCode: 1 },
  'contents.empty': { action: 'retry', exitCode: 1 },
  'contents.too_large': { action: 'quarantine', exitCode: 1 },
  'contents.interrupted': { action: 'retry', exitCode: 1 },
  'archive.damaged': { action: 'retry', exitCode: 1 },
  'archive.refused': { action: 'quarantine', exitCode: 1 },
  'disk.full': { action: 'retry', exitCode: 1 },
  'disk.failed': { action: 'retry', exitCode: 1 },
  'disk.changed': { action: 'retry', exitCode: 1 },
  'disk.unstorable': { action: 'quarantine', exitCode: 1 },
  'system.exhausted': { action: 'retry', exitCode: 1 },
  'publish.leased': { action: 'hold', exitCode: 1 },
  'publish.refused': { action: 'quarantine', exitCode: 1 },
  'hook.failed': { action: 'retry', exitCode: 1 },
  'notification.failed': { action: 'retry', exitCode: 1 },
  'log.failed': { action: 'retry', exitCode: 1 },
  'lease.not_granted': { action: 'exit', exitCode: 1 },
  'lease.not_found': { action: 'exit', exitCode: 2 },
  'lease.lost': { action: 'exit', exitCode: 1 },
  'key.not_found': { action: 'exit', exitCode: 2 },
  'http.unusable': { action: 'exit', exitCode: 2 },
  'state.unavailable': { action: 'retry', exitCode: 1 },
  'target.unknown': { action: 'exit', exitCode: 2 },
  'target.not_held': { action: 'exit', exitCode: 2 },
  'target.mirrored': { action: 'exit', exitCode: 2 },
  'history.not_found': { action: 'exit', exitCode: 2 },
  'history.occupied': { action: 'exit', exitCode: 2 },
  'history.damaged': { action: 'exit', exitCode: 1 },
  'pass.abandoned': { action: 'retry', exitCode: 1 },
  'program.replaced': { action: 'exit', exitCode: 1 },
  'internal.defect': { action: 'exit', exitCode: 70 },
} as const satisfies Record<string, ErrorRule>;

/** A stable error code: part of the contract with readers of logs and `status`. */
export type ErrorCode = keyof typeof ERROR_RULES;

export interface MirrorErrorOptions {
  /** The remedy for the user, as a full sentence; null, as in JSON, for none. */
  readonly hint?: string | null | undefined;
  readonly cause?: unknown;
  /** The earliest time, in milliseconds from now, at which the service wants to be asked again (RFC 9110, Retry-After). */
  readonly retryAfterMs?: number | undefined;
  /** By default the action of its code. */
  readonly action?: ErrorAction | undefined;
}

/** Every error that this program raises on purpose. */
export class MirrorError extends Error {
  override readonly name = 'MirrorError';
  readonly code: ErrorCode;
  /** The message, as its original lines: a line feed within one comes from elsewhere. */
  readonly lines: readonly string[];
  readonly hint: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly action: ErrorAction;

  /**
   * @param message what happened, without secrets, as one line or as several
   */
  constructor(code: ErrorCode, message: string | readonly string[], options: MirrorErrorOptions = {}) {
    const lines = typeof message === 'string' ? [message] : message;
    super(lines.join('\n'), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.lines = lines;
    this.hint = options.hint ?? undefined;
    this.retryAfterMs = options.retryAfterMs;
    this.action = options.action ?? ERROR_RULES[code].action;
  }
}

/** The remedy if the system gives no more open files or threads. */
export const EXHAUSTED_HINT =
  'Raise the limit on open files: LimitNOFILE= in the systemd unit, `ulimit -n` in a shell, --ulimit of a container. ENFILE is about the open files of all processes together (sysctl fs.file-max), EAGAIN the number of threads (TasksMax=).';

/** How the system, Node and module loaders report a lack of files or threads; some give no code. */
const EXHAUSTED = /\b(?:EMFILE|ENFILE)\b|too many open files|Worker initialization failure: EAGAIN/i;

/**
 * Whether an error comes from too many open files or threads. Any call can fail with it, also one that loads a part of this program, so
 * a caller that wraps the error may mistake it for a damaged installation, an absent service, or a defect.
 */
function isOfExhaustion(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  // A message of ours may quote the service, which may have run out of its own files.
  if (!(error instanceof MirrorError) && EXHAUSTED.test(error.message)) return true;
  return (
    isOfExhaustion(error.cause) || (error instanceof AggregateError && error.errors.some(isOfExhaustion))
  );
}

/**
 * Returns a MirrorError unchanged, and makes one from an error about too many open files or threads, which any call may meet.
 * Anything else is a defect of this program and is wrapped as one.
 */
export function toMirrorError(error: unknown): MirrorError {
  if (error instanceof MirrorError && error.code === 'system.exhausted') return error;
  if (isOfExhaustion(error)) {
    const message = error instanceof MirrorError ? error.lines : error.message;
    return new MirrorError('system.exhausted', message, { cause: error, hint: EXHAUSTED_HINT });
  }
  if (error instanceof MirrorError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new MirrorError('internal.defect', message, {
    cause: error,
    hint: 'This is a defect of workbook-mirror. Please report it with the log lines around it.',
  });
}

/** The exit code of a command that ends with this error. */
export function exitCodeOf(error: unknown): ExitCode {
  return ERROR_RULES[toMirrorError(error).code].exitCode;
}
