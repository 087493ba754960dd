import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';

import type { SettingsFor } from '../../config/schema.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { type Lease, releaseLease, watchLease } from '../../mirror/store/leases.ts';
import { tell } from '../frame/output.ts';
import { standardError, standardOutput } from '../../lib/process/streams.ts';

/** The signals that are passed on to the command instead of ending this program. */
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Exit codes of a shell for what cannot be started (POSIX, Shell Command Language, 2.8.2). */
const NOT_FOUND_CODE = 127;
const NOT_EXECUTABLE_CODE = 126;
const SIGNAL_CODE_BASE = 128;

/**
 * Runs a command under a lease, with this program's own standard input, output and error, and ends the lease when the command
 * has ended.
 * @param acquire takes the lease; its signal abandons that
 * @returns the command's exit code, or 128 and the number of the signal that ended it, as a shell has it
 * @throws MirrorError `lease.lost` when the command succeeded and the lease had ended before; what `acquire` throws
 */
export async function runUnderLease(
  settings: SettingsFor<'directory'>,
  command: readonly string[],
  acquire: (signal: AbortSignal) => Promise<Lease>,
): Promise<number> {
  const stop = new AbortController();
  const running: { child: ChildProcess | null; signal: NodeJS.Signals | null } = {
    child: null,
    signal: null,
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    running.signal ??= signal;
    if (running.child === null) stop.abort();
    else forward(running.child, signal);
  };
  for (const signal of FORWARDED) process.on(signal, onSignal);
  try {
    const lease = await acquire(stop.signal);
    return await holdWhile(settings, lease, command, () => {
      stop.signal.throwIfAborted();
      running.child = start(command);
      return ended(running.child, command);
    });
  } catch (error) {
    if (stop.signal.aborted && running.signal !== null) return signalCode(running.signal);
    throw error;
  } finally {
    for (const signal of FORWARDED) process.off(signal, onSignal);
  }
}

/** Holds a lease for some work, and releases it then. @returns the exit code of the work */
async function holdWhile(
  settings: SettingsFor<'directory'>,
  lease: Lease,
  command: readonly string[],
  work: () => Promise<number>,
): Promise<number> {
  const layout = layoutOf(settings.directory);
  const over = new AbortController();
  const watch = watchLease(layout, lease, Date.now, over.signal).then((state) => {
    if (state === 'lost' && !over.signal.aborted) tell(lostMessage(command, 'is still running'));
    return state;
  });
  try {
    const exitCode = await work();
    over.abort();
    if ((await watch) === 'held') return exitCode;
    if (exitCode === EXIT_CODES.ok) throw lost(command);
    tell(lostMessage(command, 'has failed'));
    return exitCode;
  } finally {
    over.abort();
    await releaseLease(layout, lease.id).catch(tellUnreleased);
  }
}

function start([program = '', ...args]: readonly string[]): ChildProcess {
  return spawn(program, args, { stdio: 'inherit' });
}

/** Waits for the end of a command, whatever else goes wrong with it once it runs. @returns its exit code, as a shell has it */
export async function ended(child: ChildProcess, [program = '']: readonly string[]): Promise<number> {
  const exited = new Promise((resolve) => child.once('exit', resolve));
  try {
    await once(child, 'spawn');
  } catch (error) {
    const isMissing = systemCode(error) === 'ENOENT';
    const why = isMissing ? 'there is no such program' : String(error);
    tell(say`workbook-mirror: cannot start ${program}: ${why}`);
    return isMissing ? NOT_FOUND_CODE : NOT_EXECUTABLE_CODE;
  }
  // Such as a signal that may not be sent to it.
  child.on('error', (error) => tell(say`workbook-mirror: ${program}: ${error.message}`));
  await exited;
  return child.signalCode === null ? (child.exitCode ?? EXIT_CODES.defect) : signalCode(child.signalCode);
}

/** A terminal sends the signals of its keys to the command, too, which is not to get them twice. */
function forward(child: ChildProcess, signal: NodeJS.Signals): void {
  const hasTerminal = process.stdin.isTTY || standardOutput.isTerminal() || standardError.isTerminal();
  if (signal !== 'SIGINT' || !hasTerminal) child.kill(signal);
}

function signalCode(signal: NodeJS.Signals): number {
  return SIGNAL_CODE_BASE + constants.signals[signal];
}

function lostMessage([program = '']: readonly string[], how: string): TerminalText {
  return say`workbook-mirror: the lease ended before ${program}, which ${how}: what it reads may be of two states.`;
}

function lost([program = '']: readonly string[]): MirrorError {
  return new MirrorError(
    'lease.lost',
    `${program} succeeded, but the lease had ended before it: what it read may be of two states.`,
    {
      hint: 'Do it again with a longer --for. A lease also ends by `lease release`, and when the clock is set.',
    },
  );
}

function tellUnreleased(error: unknown): void {
  const { message } = toMirrorError(error);
  tell(say`workbook-mirror: the lease was not released and lasts until it runs out: ${message}`);
}
