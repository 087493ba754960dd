import { hostname } from 'node:os';
import { basename } from 'node:path';

import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import { unknownName } from '../../app/target-names.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';
import { userName } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { roughDuration, utcTime } from '../../lib/text/humanize.ts';
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
import { unfinishedPublishes } from '../../mirror/store/publish/journal.ts';
import { type Outcome, table, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { runUnderLease } from './lease-holder.ts';

/** `lease acquire` */
export async function runLeaseAcquire(command: Command): Promise<Outcome> {
  const { args } = command;
  const flags: AcquireFlags = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const take = (signal: AbortSignal): Promise<Lease> => acquire(settings, flags, args, signal);
  if (args.length > 0) {
    if (flags.json) throw new MirrorError('usage.invalid', '--json is for a lease without a command.');
    return { exitCode: await runUnderLease(layoutOf(settings.directory), args, take) };
  }
  const taken = await untilStopped(take, { outcome: 'no lease was taken' });
  return { data: taken, text: () => say`${taken.id}` };
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
  const { settings } = settingsOf(command, ['directory']);
  const inForce = await listLeases(settings);
  const released = inForce.filter((lease) => id === undefined || lease.id === id);
  if (id !== undefined && released.length === 0) throw notFound(id, inForce);
  for (const lease of released) await releaseLease(layoutOf(settings.directory), lease.id);
  const ids = released.map((lease) => lease.id).join(', ');
  return { data: released, text: () => (ids === '' ? say`No lease is in force.` : say`Released ${ids}.`) };
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

/** The duration of a lease, in milliseconds. @throws MirrorError `usage.invalid` */
function durationOf(text: string): number {
  try {
    const durationMs = parseDuration(text);
    if (durationMs > 0 && durationMs <= LONGEST_LEASE_MS) return durationMs;
  } catch (cause) {
    throw new MirrorError('usage.invalid', `--for: ${cause instanceof Error ? cause.message : ''}`, {
      cause,
    });
  }
  const longest = formatDuration(LONGEST_LEASE_MS);
  throw new MirrorError('usage.invalid', `--for takes a duration of more than 0 and at most ${longest}.`);
}

/** The longest name of a holder, in characters. */
const LONGEST_HOLDER = 200;

/** The name of the holder of a lease. Arguments of a command are left out, as they may hold a secret. */
function holderOf({ holder }: AcquireFlags, [program]: readonly string[]): string {
  const user = `${userName()}@${hostname()}`;
  const name = holder ?? (program === undefined ? user : `${basename(program)} of ${user}`);
  return name.slice(0, LONGEST_HOLDER);
}

/**
 * Takes a lease, and warns of earlier interrupted publishes.
 * @param command to run under it; empty for none
 * @throws MirrorError `usage.invalid`, `directory.unusable`, `lease.not_granted`, `disk.*`
 */
async function acquire(
  settings: SettingsFor<'directory'>,
  flags: AcquireFlags,
  command: readonly string[],
  signal: AbortSignal,
): Promise<Lease> {
  const request = { holder: holderOf(flags, command), durationMs: durationOf(flags.for), signal };
  await refuseMissing(settings.directory);
  const layout = layoutOf(settings.directory);
  const lease = await acquireLease(layout, bindNativeCalls(), request, Date.now);
  const { targets, isComplete } = await unfinishedPublishes(layout).catch(() => NOTHING_SEEN);
  for (const path of [...targets, ...(isComplete ? [] : ['some targets, which this user may not see'])]) {
    tell(
      say`! ${path}: a publish may have been interrupted, and is completed after the lease; until then, its manifest may belong to another state than its tree. A mirror restored from a backup detects this.`,
    );
  }
  return lease;
}

const NOTHING_SEEN = { targets: new Set<string>(), isComplete: false };

/** The leases of a directory. @throws MirrorError `directory.unusable`, `disk.failed` */
async function listLeases({ directory }: SettingsFor<'directory'>): Promise<readonly Lease[]> {
  await refuseMissing(directory);
  return leasesInForce(layoutOf(directory), Date.now());
}

/** Describes leases to a person. */
function describeLeases(leases: readonly Lease[], nowMs: number): TerminalText {
  if (leases.length === 0) return say`No lease is in force.`;
  const rows = leases.map(({ id, holder, takenAtMs, untilMs }) => [
    id,
    utcTime(takenAtMs),
    utcTime(untilMs),
    roughDuration(untilMs - nowMs),
    holder,
  ]);
  return table(['ID', 'TAKEN', 'UNTIL', 'IN', 'HOLDER'], rows);
}

function notFound(id: string, inForce: readonly Lease[]): MirrorError {
  const ids = inForce.map((lease) => lease.id);
  const message = `No lease ${JSON.stringify(id)} is in force.`;
  return unknownName(
    'lease.not_found',
    message,
    id,
    ids,
    `\`${ownCommand('lease list')}\` shows all of them.`,
  );
}
