import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { standardError, standardOutput } from '../../lib/process/streams.ts';
import { say } from '../../lib/text/terminal-text.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { type Lease, releaseLease, watchLease } from '../../mirror/store/leases.ts';
import { tell } from '../frame/output.ts';

/** Signals that go to the command instead of ending this program. */
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** A shell's exit codes for a program that cannot be started (POSIX, Shell Command Language, 2.8.2). */
const NOT_FOUND_CODE = 127;
const NOT_EXECUTABLE_CODE = 126;
const SIGNAL_CODE_BASE = 128;

/**
 * Runs a command under a lease, with this program's own standard input, output and error, and releases the lease after it.
 * @param acquire takes the lease; its signal abandons the attempt
 * @returns the command's exit code, or 128 plus the number of the signal that ended it, as in a shell
 * @throws MirrorError `lease.lost` if the command succeeded after the end of the lease; errors of `acquire`
 */
export async function runUnderLease(
  layout: DirectoryLayout,
  command: readonly string[],
  acquire: (signal: AbortSignal) => Promise<Lease>,
): Promise<number> {
  const stop = new AbortController();
  let child: ChildProcess | undefined;
  let stoppedBy: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (child !== undefined) return forward(child, signal);
    stoppedBy ??= signal;
    stop.abort();
  };
  for (const signal of FORWARDED) process.on(signal, onSignal);
  try {
    const lease = await acquire(stop.signal);
    try {
      stop.signal.throwIfAborted();
      const [program = '', ...args] = command;
      child = spawn(program, args, { stdio: 'inherit' });
      return await holdUntil(ended(child, command), layout, lease, program);
    } finally {
      await releaseLease(layout, lease.id).catch((error: unknown) => {
        const { message } = toMirrorError(error);
        tell(say`workbook-mirror: the lease was not released, and lasts until it expires: ${message}`);
      });
    }
  } catch (error) {
    if (stoppedBy === undefined) throw error;
    return SIGNAL_CODE_BASE + constants.signals[stoppedBy];
  } finally {
    for (const signal of FORWARDED) process.off(signal, onSignal);
  }
}

/** Watches a lease until a command ends. @returns the exit code of the command @throws MirrorError `lease.lost` */
async function holdUntil(
  exited: Promise<number>,
  layout: DirectoryLayout,
  lease: Lease,
  program: string,
): Promise<number> {
  const over = new AbortController();
  const tellLost = (): void =>
    tell(say`workbook-mirror: the lease ended before ${program}, which may now read a mix of two states.`);
  const watch = watchLease(layout, lease, Date.now, over.signal).then((state) => {
    if (state === 'lost' && !over.signal.aborted) tellLost();
    return state;
  });
  const exitCode = await exited.finally(() => over.abort());
  if ((await watch) === 'held') return exitCode;
  if (exitCode !== EXIT_CODES.ok) {
    tellLost();
    return exitCode;
  }
  throw new MirrorError(
    'lease.lost',
    `${program} succeeded, but the lease had ended before: it may have read a mix of two states.`,
    {
      hint: 'Do it again with a longer --for. A lease also ends by `lease release`, and when the clock is set.',
    },
  );
}

/** Waits for the end of a started command, despite other errors. @returns its exit code, as in a shell */
export async function ended(child: ChildProcess, [program = '']: readonly string[]): Promise<number> {
  const exited = new Promise((resolve) => child.once('exit', resolve));
  try {
    await once(child, 'spawn');
  } catch (error) {
    const isMissing = systemCode(error) === 'ENOENT';
    tell(
      say`workbook-mirror: cannot start ${program}: ${isMissing ? 'there is no such program' : String(error)}`,
    );
    return isMissing ? NOT_FOUND_CODE : NOT_EXECUTABLE_CODE;
  }
  // For example, a signal that may not be sent to it.
  child.on('error', (error) => tell(say`workbook-mirror: ${program}: ${error.message}`));
  await exited;
  const { signalCode, exitCode } = child;
  return signalCode === null
    ? (exitCode ?? EXIT_CODES.defect)
    : SIGNAL_CODE_BASE + constants.signals[signalCode];
}

/** A terminal also sends the signals of its keys to the command, which must not get them twice. */
function forward(child: ChildProcess, signal: NodeJS.Signals): void {
  const hasTerminal = process.stdin.isTTY || standardOutput.isTerminal() || standardError.isTerminal();
  if (signal !== 'SIGINT' || !hasTerminal) child.kill(signal);
}
