import { isDeepStrictEqual } from 'node:util';

import type { Decision, TargetRecord } from '../plan/record.ts';

/**
 * Most passes change nothing: the record of nearly every target then differs from the one before in the times of the pass alone.
 * Such passes are counted in one mark for all targets, and a record that follows the mark is read together with it. The mark is
 * written after everything that must not follow it any more, so that what is read is, after a crash too, what some pass found
 * out: the worst is that a pass was forgotten.
 */
export interface RepeatMark {
  /** Tells this row of passes from another, of which the mark was lost. */
  readonly epoch: string;
  /** How many passes of the epoch were counted. */
  readonly pass: number;
  /** When the listing of the last of them was taken, in milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /** When its decisions were noted, in milliseconds since the epoch. */
  readonly decidedAtMs: number;
}

/** How a record follows the mark. */
export interface Follows {
  readonly epoch: string;
  /** The pass that the record speaks of as it stands; the passes counted since then repeated it. */
  readonly pass: number;
  /** Whether its target was verified by each of them, and not just decided about. */
  readonly verifies: boolean;
}

/** A record as it is kept. */
export interface StoredRecord extends TargetRecord {
  /** Null for a record that stands for itself. */
  readonly follows: Follows | null;
}

/** A record as it is to be read, and how it follows the mark. */
export interface KnownRecord {
  readonly record: TargetRecord;
  readonly follows: Follows | null;
}

/** A record that stands for itself. */
export function standing(record: TargetRecord): StoredRecord {
  return { ...record, follows: null };
}

/** Reads a record together with the mark; without one it stands for itself. */
export function readWithMark({ follows, ...record }: StoredRecord, mark: RepeatMark | null): TargetRecord {
  const [last, ...older] = record.decisions;
  const repeats = mark !== null && follows?.epoch === mark.epoch ? mark.pass - follows.pass : 0;
  if (mark === null || follows === null || last === undefined || repeats <= 0) return record;
  return {
    ...record,
    verifiedAtMs: follows.verifies ? mark.verifiedAtMs : record.verifiedAtMs,
    decisions: [{ ...last, lastAtMs: mark.decidedAtMs, times: last.times + repeats }, ...older],
  };
}

/** Writes after which records read as they are wanted: first the records, then, where it is not null, the mark. */
export interface Writes {
  readonly records: readonly StoredRecord[];
  readonly mark: RepeatMark | null;
}

/**
 * Finds the fewest writes after which some records read anew and all others as before.
 * @param known everything that is kept, by key
 * @param wanted the records to be saved, by key
 */
export function planWrites(
  known: ReadonlyMap<string, KnownRecord>,
  mark: RepeatMark,
  wanted: ReadonlyMap<string, TargetRecord>,
): Writes {
  const next = nextMark(known, mark, wanted);
  const repeating = new Set(
    [...wanted].flatMap(([key, record]) => (isRepetition(known.get(key), record, next) ? [key] : [])),
  );
  // A pull that ends saves one record, and must not look at all others for that.
  const left =
    repeating.size < 2
      ? []
      : [...known].filter(([key, { follows }]) => follows?.epoch === mark.epoch && !wanted.has(key));
  // Those that are left would follow on, too: they are written to stand for themselves.
  const isWorthIt = repeating.size > left.length + 1;
  const { epoch, pass } = isWorthIt ? next : mark;
  const records = [...wanted].flatMap(([key, record]): readonly StoredRecord[] => {
    if (isWorthIt && repeating.has(key)) return [];
    const verifies = record.decisions[0]?.kind === 'keep';
    return [{ ...record, follows: { epoch, pass, verifies } }];
  });
  if (!isWorthIt) return { records, mark: null };
  return { records: [...left.map(([, { record }]) => standing(record)), ...records], mark: next };
}

/** The mark of a pass with the times of the first records that may repeat themselves in it. */
function nextMark(
  known: ReadonlyMap<string, KnownRecord>,
  mark: RepeatMark,
  wanted: ReadonlyMap<string, TargetRecord>,
): RepeatMark {
  let verifiedAtMs: number | null = null;
  let decidedAtMs: number | null = null;
  for (const [key, record] of wanted) {
    const before = known.get(key);
    if (before?.follows?.epoch !== mark.epoch || !isSameDecision(before.record, record)) continue;
    decidedAtMs ??= record.decisions[0]?.lastAtMs ?? null;
    if (before.follows.verifies) verifiedAtMs ??= record.verifiedAtMs;
    if (decidedAtMs !== null && verifiedAtMs !== null) break;
  }
  return {
    epoch: mark.epoch,
    pass: mark.pass + 1,
    verifiedAtMs: verifiedAtMs ?? mark.verifiedAtMs,
    decidedAtMs: decidedAtMs ?? mark.decidedAtMs,
  };
}

/** Whether a record reads as wanted if nothing but the mark is written. */
function isRepetition(known: KnownRecord | undefined, record: TargetRecord, next: RepeatMark): boolean {
  if (known === undefined || known.follows?.epoch !== next.epoch) return false;
  const { record: before, follows } = known;
  // After a crash a record may speak of a pass already that no mark counts yet: the mark would not be read with it.
  if (follows.pass >= next.pass) return false;
  const verifiedAtMs = follows.verifies ? next.verifiedAtMs : before.verifiedAtMs;
  return (
    record.verifiedAtMs === verifiedAtMs &&
    record.decisions[0]?.lastAtMs === next.decidedAtMs &&
    isSameDecision(before, record) &&
    isSameBeside(before, record)
  );
}

/** Whether the last decision was taken once more, and nothing else decided. */
function isSameDecision({ decisions: before }: TargetRecord, { decisions: after }: TargetRecord): boolean {
  const [first, ...older] = before;
  const [again, ...others] = after;
  if (first === undefined || again === undefined || older.length !== others.length) return false;
  return (
    again.times === first.times + 1 &&
    again.firstAtMs === first.firstAtMs &&
    isSameStep(first, again) &&
    older.every((decision, index) => isSame(decision, others[index]))
  );
}

function isSameStep(one: Decision, other: Decision): boolean {
  return one.kind === other.kind && one.reason === other.reason && one.result === other.result;
}

/** Whether two records agree in everything but when they were verified, and in their decisions. */
function isSameBeside(one: TargetRecord, other: TargetRecord): boolean {
  const { verifiedAtMs: _verified, decisions: _decisions, ...rest } = one;
  return Object.entries(rest).every(([name, value]) => isSame(value, other[name as keyof typeof rest]));
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && isDeepStrictEqual(one, other));
}
