import type { sharingSetting } from '../../config/changes.ts';
import { type LockReach, type MountLocks, mountText } from '../../lib/disk/lock-reach.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { Room } from '../../lib/disk/place-facts.ts';
import { counted, roughDuration, roughSize } from '../../lib/text/humanize.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { CLOCK_STEP_MS } from '../../lib/time/wrong-clock.ts';
import { table, textOf } from '../frame/output.ts';

/** One line of `config check`. */
export interface Finding {
  readonly verdict: 'ok' | 'warning' | 'error';
  readonly subject: string;
  readonly finding: string;
  /** Null if there is nothing to do. */
  readonly whatToDo: string | null;
}

/** A finding without anything to do. */
export function well(subject: string, finding: string): Finding {
  return { verdict: 'ok', subject, finding, whatToDo: null };
}

export function warning(subject: string, finding: string, whatToDo: string): Finding {
  return { verdict: 'warning', subject, finding, whatToDo };
}

/** The finding of a failed check. It always says what to do. */
export function failed(subject: string, error: unknown): Finding {
  const { message, hint = `Check ${subject}, and the server or place that it names.` } = toMirrorError(error);
  return { verdict: 'error', subject, finding: message.replaceAll('\n', ' '), whatToDo: hint };
}

/** Free shares of space below which there is a warning or an error. */
const LEAST_FREE = { warning: 0.1, error: 0.01 };

/** The free space and inodes of a file system; nothing if they are unknown. */
export function roomFindings(room: Room | null): Finding[] {
  if (room === null) return [];
  const { freeBytes, totalBytes, freeInodes, totalInodes } = room;
  const judged = (subject: string, share: number, finding: string): Finding => {
    if (share >= LEAST_FREE.warning) return well(subject, finding);
    const whatToDo = 'Delete files there, or use a larger file system.';
    return { verdict: share < LEAST_FREE.error ? 'error' : 'warning', subject, finding, whatToDo };
  };
  return [
    judged(
      'free space',
      totalBytes > 0 ? freeBytes / totalBytes : 0,
      `${roughSize(freeBytes)} of ${roughSize(totalBytes)} are free`,
    ),
    totalInodes > 0
      ? judged('free inodes', freeInodes / totalInodes, `${freeInodes} of ${totalInodes} are free`)
      : well('free inodes', 'their number is not limited'),
  ];
}

/** The difference between the clocks of the service, if it tells its time, and of this machine, in milliseconds since the epoch. */
export function clockFinding(theirsMs: number | null, oursMs: number): Finding {
  if (theirsMs === null)
    return warning(
      'clock',
      'the service does not send its time',
      'Compare the clock by hand: `timedatectl`.',
    );
  const differenceMs = Math.abs(theirsMs - oursMs);
  const finding = `it differs from the service's by ${roughDuration(differenceMs)}`;
  if (differenceMs < CLOCK_STEP_MS) return well('clock', finding);
  return warning('clock', finding, 'Set it by NTP (`timedatectl set-ntp true`), here or there.');
}

const REACH_TEXTS: Readonly<Record<LockReach, string>> = {
  local: ', a file system of this machine alone',
  shared: '; other machines see its locks',
  'not-shared': '; other machines do not see its locks',
  unknown: '; it is unknown whether other machines see its locks',
};

/**
 * Names the file system of the directory, and warns if instances on several machines would not see each other's locks.
 * @param sharing the setting that makes several instances likely; null without
 */
export function locksFindings(
  directory: string,
  locks: MountLocks | null,
  sharing: ReturnType<typeof sharingSetting>,
): Finding[] {
  if (locks === null) return [];
  const found = well('directory', `${directory} is on ${mountText(locks)}${REACH_TEXTS[locks.reach]}`);
  if (sharing === null || locks.reach !== 'not-shared') return [found];
  const danger = `${sharing}: instances on two machines could work on one target at once`;
  return [found, warning('directory', danger, 'Use one machine only, or NFS 4.')];
}

/**
 * The findings on the keys of a setting, named by their positions.
 * @param failures one for each key, in order; null for an accepted one
 */
export function keyFindings(setting: string, failures: readonly (MirrorError | null)[]): Finding[] {
  return failures.map((failure, index) => {
    const subject = failures.length === 1 ? setting : `${setting}, key ${index + 1} of ${failures.length}`;
    if (failure === null) return well(subject, 'the service accepts it');
    const isEnough = failures.includes(null) || failure.code === 'service.not_found';
    return { ...failed(subject, failure), verdict: isEnough ? 'warning' : 'error' };
  });
}

/** Describes findings to a person: the remedy below each, and the number of each kind at the end. */
export function describeFindings(findings: readonly Finding[]): TerminalText {
  const rows = findings.map(({ verdict, subject, finding }) => [verdict, subject, finding]);
  const toDo = findings.map(({ whatToDo }) => whatToDo ?? '');
  const count = (wanted: Finding['verdict']): number =>
    findings.filter(({ verdict }) => verdict === wanted).length;
  return textOf(
    table(['RESULT', 'SUBJECT', 'FINDING'], rows, toDo),
    `${counted(count('error'), 'error')}, ${counted(count('warning'), 'warning')}`,
  );
}
