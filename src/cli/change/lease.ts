import { type ChildProcess, spawn } from 'node:child_process';
import { constants, hostname } from 'node:os';
import { basename } from 'node:path';

import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import { unknownName } from '../../app/target-names.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';
import { userName } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardError, standardOutput } from '../../lib/process/streams.ts';
import { roughDuration, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { formatDuration, parseDuration } from '../../lib/text/units.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import {
  acquireLease,
  type Lease,
  leasesInForce,
  LONGEST_LEASE_MS,
  releaseLease,
  watchLease,
} from '../../mirror/store/leases.ts';
import { unfinishedPublishes } from '../../mirror/store/publish/journal.ts';
import { type Outcome, table, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** Signals that go to the command instead of ending this program. */
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** `lease acquire` */
export async function runLeaseAcquire(command: Command): Promise<Outcome> {
  const { args } = command;
  const { json, ...flags }: { for: string; holder?: string; json?: true } = command.opts();
  const { directory } = settingsOf(command, ['directory']).settings;
  if (args.length > 0 && json)
    throw new MirrorError('usage.invalid', '--json is for a lease without a command.');
  const take = (signal: AbortSignal): Promise<Lease> => acquire(directory, flags, args, signal);
  const taken = await untilStopped(take, { names: FORWARDED, outcome: 'no lease was taken' });
  if (args.length === 0) return { data: taken, text: () => say`${taken.id}` };
  return { exitCode: await runUnder(taken, layoutOf(directory), args) };
}

/** `lease release` */
export async function runLeaseRelease(command: Command): Promise<Outcome> {
  const [id] = command.args;
  const { all }: { all?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  if ((id === undefined) !== (all === true)) {
    throw new MirrorError('usage.invalid', 'lease release needs an id, or --all.', {
      hint: `\`${ownCommand('lease list')}\` shows the leases.`,
    });
  }
  const inForce = await listLeases(settings);
  const released = inForce.filter((lease) => id === undefined || lease.id === id);
  if (id !== undefined && released.length === 0) {
    const message = `No lease ${JSON.stringify(id)} is in force.`;
    const lists = `\`${ownCommand('lease list')}\` shows all of them.`;
    throw unknownName('lease.not_found', message, id, new Set(inForce.map((lease) => lease.id)), lists);
  }
  for (const lease of released) await releaseLease(layoutOf(settings.directory), lease.id);
  const ids = released.map((lease) => lease.id).join(', ');
  return { data: released, text: () => (ids === '' ? say`No lease is in force.` : say`Released ${ids}.`) };
}

/** `lease list` */
export async function runLeaseList(command: Command): Promise<Outcome> {
  const leases = await listLeases(settingsOf(command, ['directory']).settings);
  const nowMs = Date.now();
  const rows = leases.map(({ id, holder, takenAtMs, untilMs }) => [
    id,
    utcTime(takenAtMs),
    utcTime(untilMs),
    roughDuration(untilMs - nowMs),
    holder,
  ]);
  const text = (): TerminalText => table(['ID', 'TAKEN', 'UNTIL', 'IN', 'HOLDER'], rows);
  return { data: leases, text: rows.length === 0 ? () => say`No lease is in force.` : text };
}

/** The duration of a lease, in milliseconds. @throws MirrorError `usage.invalid` */
function durationOf(text: string): number {
  let problem = `the duration must be more than 0 and at most ${formatDuration(LONGEST_LEASE_MS)}.`;
  try {
    const durationMs = parseDuration(text);
    if (durationMs > 0 && durationMs <= LONGEST_LEASE_MS) return durationMs;
  } catch (error) {
    problem = toMirrorError(error).message;
  }
  throw new MirrorError('usage.invalid', `--for: ${problem}`);
}

/** The longest name of a holder, in characters. */
const LONGEST_HOLDER = 200;

/**
 * Takes a lease, and warns of earlier interrupted publishes.
 * @param flags.for a duration such as `30m`
 * @param command to run under it; empty for none. Its arguments are in no name of a holder: they may hold a secret.
 * @throws MirrorError `usage.invalid`, `directory.unusable`, `lease.not_granted`, `disk.*`
 */
async function acquire(
  directory: string,
  flags: { readonly for: string; readonly holder?: string },
  [program]: readonly string[],
  signal: AbortSignal,
): Promise<Lease> {
  const user = `${userName()}@${hostname()}`;
  const name = flags.holder ?? (program === undefined ? user : `${basename(program)} of ${user}`);
  const request = { holder: name.slice(0, LONGEST_HOLDER), durationMs: durationOf(flags.for), signal };
  await refuseMissing(directory);
  const layout = layoutOf(directory);
  const lease = await acquireLease(layout, bindNativeCalls(), request, Date.now);
  if (signal.aborted) {
    await releaseLease(layout, lease.id);
    signal.throwIfAborted();
  }
  const nothingSeen = { targets: new Set<string>(), isComplete: false };
  const { targets, isComplete } = await unfinishedPublishes(layout).catch(() => nothingSeen);
  for (const path of [...targets, ...(isComplete ? [] : ['some targets, which this user may not see'])]) {
    tell(
      say`! ${path}: a publish may have been interrupted, and is completed after the lease; until then, its manifest may belong to another state than its tree. A mirror restored from a backup detects this.`,
    );
  }
  return lease;
}

/** The leases of a directory. @throws MirrorError `directory.unusable`, `disk.failed` */
async function listLeases({ directory }: SettingsFor<'directory'>): Promise<readonly Lease[]> {
  await refuseMissing(directory);
  return leasesInForce(layoutOf(directory), Date.now());
}

/** A shell's exit codes for a program that cannot be started (POSIX, Shell Command Language, 2.8.2). */
const NOT_FOUND_CODE = 127;
const NOT_EXECUTABLE_CODE = 126;
const SIGNAL_CODE_BASE = 128;

/**
 * Runs a command under a lease, with this program's own standard input, output and error, and releases the lease after it.
 * @returns the command's exit code, or 128 plus the number of the signal that ended it, as in a shell
 * @throws MirrorError `lease.lost` if the command succeeded after the end of the lease
 */
async function runUnder(lease: Lease, layout: DirectoryLayout, command: readonly string[]): Promise<number> {
  const [program = '', ...args] = command;
  let child: ChildProcess | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (child !== undefined) forward(child, signal);
  };
  for (const signal of FORWARDED) process.on(signal, onSignal);
  try {
    child = spawn(program, args, { stdio: 'inherit' });
    return await holdUntil(ended(child, command), layout, lease, program);
  } finally {
    await releaseLease(layout, lease.id).catch((error: unknown) => {
      const { message } = toMirrorError(error);
      tell(say`workbook-mirror: the lease was not released, and lasts until it expires: ${message}`);
    });
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
  const watch = watchLease(layout, lease, Date.now, over.signal).then((state) => {
    if (state === 'lost')
      tell(say`workbook-mirror: the lease ended before ${program}, which may now read a mix of two states.`);
    return state;
  });
  const exitCode = await exited.finally(() => over.abort());
  if ((await watch) === 'held' || exitCode !== EXIT_CODES.ok) return exitCode;
  const message = `${program} succeeded, but the lease had ended before: it may have read a mix of two states.`;
  throw new MirrorError('lease.lost', message, {
    hint: 'Do it again with a longer --for. A lease also ends by `lease release`, and when the clock is set.',
  });
}

/** Waits for the end of a started command, despite other errors. @returns its exit code, as in a shell */
export async function ended(child: ChildProcess, [program = '']: readonly string[]): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  child.once('exit', (exitCode, signal) =>
    resolve(signal === null ? (exitCode ?? EXIT_CODES.defect) : SIGNAL_CODE_BASE + constants.signals[signal]),
  );
  child.on('error', (error) => {
    // For example, a signal that may not be sent to it.
    if (child.pid !== undefined) return tell(say`workbook-mirror: ${program}: ${error.message}`);
    const isMissing = systemCode(error) === 'ENOENT';
    const why = isMissing ? 'there is no such program' : String(error);
    tell(say`workbook-mirror: cannot start ${program}: ${why}`);
    resolve(isMissing ? NOT_FOUND_CODE : NOT_EXECUTABLE_CODE);
  });
  return promise;
}

/** A terminal also sends the signals of its keys to the command, which must not get them twice. */
function forward(child: ChildProcess, signal: NodeJS.Signals): void {
  const hasTerminal = process.stdin.isTTY || standardOutput.isTerminal() || standardError.isTerminal();
  if (signal !== 'SIGINT' || !hasTerminal) child.kill(signal);
}
