import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { nextRecord, type RecordStep } from '../../../../src/mirror/plan/next-record.ts';
import { emptyRecord, type Outcome, type TargetRecord } from '../../../../src/mirror/plan/record.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import {
  type KnownRecord,
  planWrites,
  readWithMark,
  type RepeatMark,
  type StoredRecord,
  type Writes,
} from '../../../../src/mirror/state/repeats.ts';
import type { RememberedTree } from '../../../../src/mirror/plan/targets.ts';
import { MINUTE_MS, NOW_MS, published, target } from '../../../support/builders.ts';

const POLICY = { backOff: { firstDelayMs: 1000, maxDelayMs: 60_000 }, slowRetryMs: 60_000 };

/** A store, as it lies on the disk. */
class Disk {
  readonly stored = new Map<string, StoredRecord>();
  mark: RepeatMark | null = null;

  /** What is read from it. */
  known(): Map<string, KnownRecord> {
    return new Map(
      [...this.stored].map(([key, stored]) => [
        key,
        { record: readWithMark(stored, this.mark), follows: stored.follows },
      ]),
    );
  }

  records(): Map<string, TargetRecord> {
    return new Map([...this.known()].map(([key, { record }]) => [key, record]));
  }

  plan(wanted: readonly TargetRecord[]): Writes {
    const mark = this.mark ?? { epoch: 'epoch', pass: 0, verifiedAtMs: 0, decidedAtMs: 0 };
    return planWrites(this.known(), mark, keyed(wanted));
  }

  save(wanted: readonly TargetRecord[], afterEach: () => void = () => {}): Writes {
    const writes = this.plan(wanted);
    for (const stored of writes.records) {
      this.stored.set(targetKey(stored.target), stored);
      afterEach();
    }
    if (writes.mark !== null) this.mark = writes.mark;
    afterEach();
    return writes;
  }
}

function keyed(records: readonly TargetRecord[]): Map<string, TargetRecord> {
  return new Map(records.map((record) => [targetKey(record.target), record]));
}

type Happening = 'kept' | 'held' | 'pulled' | 'failed' | 'absent' | 'not-seen';

const SUMMARY = { ...published(), path: 'Accounting/main' };
const TREE: RememberedTree = { stamp: '1 2 3 4', summary: SUMMARY, check: 0 };

const OUTCOMES: Readonly<Record<Exclude<Happening, 'not-seen'>, readonly [string, string, Outcome]>> = {
  kept: ['keep', 'unchanged', { kind: 'kept' }],
  held: ['hold', 'not-selected', { kind: 'held' }],
  absent: ['keep', 'absent', { kind: 'kept' }],
  pulled: [
    'pull',
    'versions-changed',
    { kind: 'pulled', changedFiles: 1, isWhole: true, publishedAtMs: 5, isExamined: true, tree: null },
  ],
  failed: [
    'pull',
    'versions-changed',
    {
      kind: 'failed',
      code: 'service.failed',
      action: 'retry',
      message: 'x',
      hint: null,
      retryAfterMs: 0,
      fingerprint: null,
    },
  ],
};

function after(before: TargetRecord, what: Exclude<Happening, 'not-seen'>, nowMs: number): TargetRecord {
  const [kind, reason, outcome] = OUTCOMES[what];
  const step: RecordStep = {
    repository: 'Accounting',
    kind,
    reason,
    outcome,
    publishedAtMs: 5,
    tree: TREE,
    listedAtMs: nowMs - 1,
    nowMs,
    random: 0.5,
    verdictDigest: 'verdict',
    deselection: undefined,
  };
  return nextRecord(before, step, POLICY);
}

const TARGETS = Array.from({ length: 6 }, (_, index) => target(`branch-${index}`));

function passOf(
  records: ReadonlyMap<string, TargetRecord>,
  what: readonly Happening[],
  nowMs: number,
): TargetRecord[] {
  return TARGETS.flatMap((of, index) => {
    const happening = what[index] ?? 'kept';
    const before = records.get(targetKey(of)) ?? emptyRecord(of);
    return happening === 'not-seen' ? [] : [after(before, happening, nowMs)];
  });
}

describe('records of targets to which nothing happens', () => {
  it('cost one mark a pass, however many they are', () => {
    const disk = new Disk();
    for (let pass = 0; pass < 5; pass += 1) {
      const next = passOf(disk.records(), [], NOW_MS + pass * MINUTE_MS);
      const writes = disk.save(next);
      expect(disk.records()).toEqual(keyed(next));
      expect(writes.records).toHaveLength(pass === 0 ? TARGETS.length : 0);
      expect(writes.mark === null).toBe(pass === 0);
    }
    const [record] = disk.records().values();
    expect(record?.decisions).toMatchObject([
      { times: 5, firstAtMs: NOW_MS, lastAtMs: NOW_MS + 4 * MINUTE_MS },
    ]);
    expect(record?.verifiedAtMs).toBe(NOW_MS + 4 * MINUTE_MS - 1);
  });

  it('are not taken for verified when only a decision about them was repeated', () => {
    const disk = new Disk();
    for (let pass = 0; pass < 4; pass += 1) {
      disk.save(passOf(disk.records(), ['held', 'held', 'held'], NOW_MS + pass * MINUTE_MS));
    }
    expect([...disk.records().values()].map(({ verifiedAtMs }) => verifiedAtMs)).toEqual([
      null,
      null,
      null,
      ...Array.from({ length: 3 }, () => NOW_MS + 3 * MINUTE_MS - 1),
    ]);
  });

  it('stand for themselves once their mark is lost', () => {
    const disk = new Disk();
    for (let pass = 0; pass < 4; pass += 1) {
      disk.save(passOf(disk.records(), [], NOW_MS + pass * MINUTE_MS));
    }
    disk.mark = null;
    for (const { verifiedAtMs, decisions } of disk.records().values()) {
      expect(verifiedAtMs).toBe(NOW_MS - 1);
      expect(decisions).toMatchObject([{ times: 1 }]);
    }
    disk.mark = { epoch: 'another', pass: 9, verifiedAtMs: NOW_MS, decidedAtMs: NOW_MS };
    expect([...disk.records().values()].map(({ verifiedAtMs }) => verifiedAtMs)).not.toContain(NOW_MS);
  });
});

describe('a record that a crash left ahead of its mark', () => {
  it('is written again by the next pass, also when that finds it as it was', () => {
    const disk = new Disk();
    for (let pass = 0; pass < 3; pass += 1) {
      disk.save(passOf(disk.records(), [], NOW_MS + pass * MINUTE_MS));
    }
    const { records } = disk.plan(passOf(disk.records(), ['absent'], NOW_MS + 3 * MINUTE_MS));
    for (const stored of records) disk.stored.set(targetKey(stored.target), stored);
    const next = passOf(disk.records(), ['absent'], NOW_MS + 4 * MINUTE_MS);
    disk.save(next);
    expect(disk.records()).toEqual(keyed(next));
  });
});

const somePass = fc.record({
  what: fc.array(
    fc.constantFrom<Happening>('kept', 'kept', 'kept', 'held', 'pulled', 'failed', 'absent', 'not-seen'),
    {
      minLength: TARGETS.length,
      maxLength: TARGETS.length,
    },
  ),
  /** What needs contents is recorded by itself, later in the pass. */
  isSplit: fc.boolean(),
});

describe('whatever happens to targets', () => {
  it('their records read as they were saved, and after a crash as they were before or after', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(somePass, fc.constant({ what: [], isSplit: false })), { maxLength: 12 }),
        (passes) => {
          const disk = new Disk();
          let wanted = new Map<string, TargetRecord>();
          for (const [at, { what, isSplit }] of passes.entries()) {
            const next = passOf(wanted, what, NOW_MS + at * MINUTE_MS);
            const isPull = ({ decisions }: TargetRecord): boolean => isSplit && decisions[0]?.kind === 'pull';
            const batches = [
              next.filter((record) => !isPull(record)),
              ...next.filter(isPull).map((record) => [record]),
            ];
            for (const batch of batches) {
              const before = wanted;
              const later = new Map([...before, ...keyed(batch)]);
              disk.save(batch, () => {
                for (const [key, record] of disk.records()) {
                  expect([before.get(key), later.get(key)]).toContainEqual(record);
                }
              });
              wanted = later;
              expect(disk.records()).toEqual(wanted);
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
