import { hostname, userInfo } from 'node:os';
import { basename } from 'node:path';

import type { Command } from 'commander';

import type { SettingsFor } from '../../config/schema.ts';
import { refuseMissing } from '../../app/open-reader.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import { roughDuration, utcTime } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { formatDuration, parseDuration } from '../../lib/text/units.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import {
  acquireLease,
  type Lease,
  leasesInForce,
  LONGEST_LEASE_MS,
  releaseLease,
} from '../../mirror/store/leases.ts';
import { interruptedPublishes } from '../../mirror/store/publish/journal.ts';
import { runUnderLease } from './lease-holder.ts';
import { type Outcome, table, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `lease acquire` */
export async function runLeaseAcquire(command: Command): Promise<Outcome> {
  const flags: AcquireFlags = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  if (command.args.length > 0) {
    if (flags.json) throw new MirrorError('usage.invalid', '--json is for a lease without a command.');
    const { args } = command;
    const take = (signal: AbortSignal): Promise<Lease> => acquire(settings, flags, args, signal);
    return { exitCode: await runUnderLease(settings, args, take) };
  }
  const { signal, stopListening } = abortOnSignal();
  try {
    const taken = await acquire(settings, flags, [], signal);
    return { data: taken, text: () => say`${taken.id}` };
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new MirrorError('pass.abandoned', 'Interrupted before the lease was taken: there is none.', {
      cause: error,
    });
  } finally {
    stopListening();
  }
}

/** `lease release` */
export async function runLeaseRelease(command: Command): Promise<Outcome> {
  const [id] = command.args;
  const { all }: { all?: true } = command.opts();
  if ((id === undefined) !== (all === true)) {
    throw new MirrorError('usage.invalid', 'lease release needs an id, or --all.', {
      hint: `\`${ownCommand('lease list')}\` shows the leases.`,
    });
  }
  const released = await release(settingsOf(command, ['directory']).settings, id ?? null);
  const ids = released.map((lease) => lease.id).join(', ');
  return {
    data: released,
    text: () => (ids === '' ? say`No lease is in force.` : say`Released ${ids}.`),
  };
}

/** `lease list` */
export async function runLeaseList(command: Command): Promise<Outcome> {
  const leases = await listLeases(settingsOf(command, ['directory']).settings);
  return { data: leases, text: () => describeLeases(leases, Date.now()) };
}

/** The flags of `lease acquire`. */
interface AcquireFlags {
  /** A duration such as `30m`. */
  readonly for: string;
  readonly holder?: string;
  readonly json?: true;
}

/** How long a lease is to last, in milliseconds. @throws MirrorError `usage.invalid` */
function durationOf(text: string): number {
  const durationMs = parseFor(text);
  if (durationMs > 0 && durationMs <= LONGEST_LEASE_MS) return durationMs;
  throw new MirrorError(
    'usage.invalid',
    `--for takes a duration of more than nothing and at most ${formatDuration(LONGEST_LEASE_MS)}.`,
    { hint: 'Whatever becomes of its holder, publishing goes on when a lease has run out.' },
  );
}

function parseFor(text: string): number {
  try {
    return parseDuration(text);
  } catch (error) {
    throw new MirrorError('usage.invalid', `--for: ${error instanceof Error ? error.message : ''}`, {
      cause: error,
    });
  }
}

/** The longest name of a holder, in characters. */
const LONGEST_HOLDER = 200;

/** The name of the holder of a lease. @throws MirrorError `usage.invalid` */
function holderOf({ holder }: AcquireFlags, command: readonly string[]): string {
  if (holder === undefined) return defaultHolder(command).slice(0, LONGEST_HOLDER);
  if (holder.length <= LONGEST_HOLDER) return holder;
  throw new MirrorError('usage.invalid', `--holder takes a name of at most ${LONGEST_HOLDER} characters.`);
}

/** The holder's name where none is given. Of the command only its name is used: its arguments may hold a secret. */
function defaultHolder(command: readonly string[]): string {
  const who = `${userName()}@${hostname()}`;
  const [program] = command;
  return program === undefined ? who : `${basename(program)} of ${who}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A user without an entry, as in containers.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/**
 * Takes a lease, and tells of what is not as it should be in spite of it.
 * @param command what is to run under it; empty for nothing
 * @throws MirrorError `usage.invalid`, `directory.unusable`, `lease.not_granted`, `disk.*`
 */
async function acquire(
  settings: SettingsFor<'directory'>,
  flags: AcquireFlags,
  command: readonly string[],
  signal: AbortSignal,
): Promise<Lease> {
  const durationMs = durationOf(flags.for);
  const holder = holderOf(flags, command);
  await refuseMissing(settings.directory);
  const request = { holder, durationMs, signal };
  const layout = layoutOf(settings.directory);
  const lease = await acquireLease(layout, bindNativeCalls(), request, Date.now);
  const interrupted = await interruptedPublishes({ layout, inUse: new Set() }).catch(() => null);
  if (interrupted === null) {
    tell(
      say`! This user may not see whether a publish was interrupted before: if one was, a manifest may not be that of its tree. A mirror that is restored from a backup finds out by itself.`,
    );
  }
  for (const path of interrupted ?? []) {
    tell(
      say`! ${path}: a publish was interrupted and is completed after the lease; its manifest may not be that of its tree. A mirror that is restored from a backup finds out by itself.`,
    );
  }
  return lease;
}

/** The leases of a directory. @throws MirrorError `directory.unusable`, `disk.failed` */
async function listLeases(settings: SettingsFor<'directory'>): Promise<readonly Lease[]> {
  await refuseMissing(settings.directory);
  return leasesInForce(layoutOf(settings.directory), Date.now());
}

/** The list for a person. */
function describeLeases(leases: readonly Lease[], nowMs: number): TerminalText {
  if (leases.length === 0) return say`No lease is in force.`;
  const rows = leases.map(({ id, holder, takenAtMs, untilMs }) => [
    id,
    utcTime(takenAtMs),
    utcTime(untilMs),
    roughDuration(untilMs - nowMs),
    holder,
  ]);
  return table(['ID', 'TAKEN', 'ENDS BY ITSELF', 'IN', 'HOLDER'], rows);
}

/**
 * Ends leases.
 * @param id which; null for all
 * @returns those that were in force
 * @throws MirrorError `lease.not_found`, `directory.unusable`, `disk.*`
 */
async function release(settings: SettingsFor<'directory'>, id: string | null): Promise<Lease[]> {
  const inForce = await listLeases(settings);
  const chosen = id === null ? inForce : inForce.filter((lease) => lease.id === id);
  if (id !== null && chosen.length === 0) throw notFound(id, inForce);
  for (const lease of chosen) await releaseLease(layoutOf(settings.directory), lease.id);
  return [...chosen];
}

function notFound(id: string, inForce: readonly Lease[]): MirrorError {
  const ids = inForce.map((lease) => lease.id);
  const close = likely(id, ids) ?? (ids.length === 1 ? ids[0] : undefined);
  return new MirrorError('lease.not_found', `No lease ${JSON.stringify(id)} is in force.`, {
    hint:
      ids.length === 0
        ? 'There is none at all: it may have run out, or was released.'
        : close === undefined
          ? `\`${ownCommand('lease list')}\` shows all of them.`
          : `The nearest is ${close}; \`${ownCommand('lease list')}\` shows all of them.`,
  });
}
