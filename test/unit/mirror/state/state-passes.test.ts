import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { nextRecord } from '../../../../src/mirror/plan/next-record.ts';
import { emptyRecord, type Outcome, type TargetRecord } from '../../../../src/mirror/plan/record.ts';
import type { Database } from '../../../../src/mirror/state/database.ts';
import { State, type StoredPass } from '../../../../src/mirror/state/state.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import { HOUR_MS, MINUTE_MS, NOW_MS, published, pulledOutcome, target } from '../../../support/builders.ts';

const SILENT = { onFailed: () => {}, onRecovered: () => {} };

/** A store on disk that fails after some writes. */
class Disk {
  readonly #namespaces = new Map<string, Map<string, string>>();
  writesLeft = Number.POSITIVE_INFINITY;
  readonly #database: Database = {
    read: async (namespace, key) => this.#in(namespace).get(key),
    write: async (namespace, entries) => {
      for (const [key, value] of entries) {
        if (this.writesLeft === 0) throw new Error('no more writes');
        this.writesLeft -= 1;
        this.#in(namespace).set(key, value);
      }
    },
    remove: async () => {},
    close: async () => {},
    entries: async function* entries(this: Disk, namespace: string) {
      yield* this.#in(namespace);
    }.bind(this),
  };

  /** Opens it as a starting process does. */
  open(): State {
    return new State(this.#database, SILENT, 'directory', null);
  }

  lose(what: 'service' | 'targets'): void {
    this.#in(`directory-${what}`).clear();
  }

  #in(namespace: string): Map<string, string> {
    const entries = this.#namespaces.get(namespace) ?? new Map<string, string>();
    this.#namespaces.set(namespace, entries);
    return entries;
  }
}

const FAILED = { kind: 'failed', error: new MirrorError('service.failed', 'x') } as const;

/** `unfinished`: a pull continues after the pass, which records nothing about its target. */
type Happening = 'kept' | 'held' | 'pulled' | 'failed' | 'absent' | 'unfinished';

const STEPS: Readonly<Record<Exclude<Happening, 'unfinished'>, readonly [string, string, Outcome]>> = {
  kept: ['keep', 'unchanged', { kind: 'kept' }],
  held: ['hold', 'not-selected', { kind: 'held' }],
  absent: ['keep', 'absent', { kind: 'kept' }],
  pulled: ['pull', 'versions-changed', pulledOutcome(1, 5)],
  failed: ['pull', 'versions-changed', FAILED],
};
const TREE = published(undefined, { publishedAtMs: 5 });
const VERIFY: ReadonlySet<Happening> = new Set(['kept', 'absent', 'pulled']);

function recordAfter(before: TargetRecord, happening: keyof typeof STEPS, listedAtMs: number): TargetRecord {
  const [kind, reason, outcome] = STEPS[happening];
  const action = { kind, reason, path: 'Accounting/main', published: TREE, fingerprint: null };
  // A cache may give an old listing.
  const nowMs = NOW_MS + HOUR_MS;
  return nextRecord(before, { action, outcome, tree: null, listedAtMs, nowMs, random: 0.5 });
}

const TARGETS = Array.from({ length: 5 }, (_, index) => target(`branch-${index}`));
const KEYS = TARGETS.map(targetKey);

/** Records a pass as the program does: each call may fail, and the pass continues. */
async function pass(
  store: State,
  happenings: readonly Happening[],
  { listedAtMs, endsWell = true }: { readonly listedAtMs: number; readonly endsWell?: boolean },
): Promise<void> {
  const records = await store.records().catch(() => new Map<string, TargetRecord>());
  const next = TARGETS.flatMap((each, index) => {
    const happening = happenings[index] ?? 'kept';
    const before = records.get(targetKey(each)) ?? emptyRecord(each);
    return happening === 'unfinished' ? [] : [recordAfter(before, happening, listedAtMs)];
  });
  const isPull = ({ decisions }: TargetRecord): boolean => decisions[0]?.kind === 'pull';
  await store.saveRecords(next.filter((record) => !isPull(record)));
  for (const record of next.filter(isPull)) await store.saveRecords([record]);
  const kept = KEYS.filter((_, index) => ['kept', 'absent'].includes(happenings[index] ?? 'kept'));
  const ended = endsWell ? { listedAtMs, targets: new Set(kept) } : null;
  await store.savePass(NOTE, ended);
}

const NOTE: Omit<StoredPass, 'listedAtMs'> = {
  trigger: 'schedule',
  startedAtMs: 1,
  finishedAtMs: 2,
  summary: null,
  failure: null,
  selection: null,
  publishesWhole: true,
  isWhole: true,
  problems: [],
};

/** When each target was verified, as another process reads it. */
async function verifiedTimes(disk: Disk): Promise<(number | null)[]> {
  const records = await disk.open().records();
  return KEYS.map((key) => records.get(key)?.verifiedAtMs ?? null);
}

function allAt(timeMs: number | null): (number | null)[] {
  return KEYS.map(() => timeMs);
}

it('a target that passes keep has the last of several records saved at once', async () => {
  const disk = new Disk();
  const store = disk.open();
  await pass(store, [], { listedAtMs: NOW_MS });
  const [before] = (await store.records()).values();
  if (before === undefined) throw new Error('there is no record');
  const held = recordAfter(before, 'held', NOW_MS + 1);
  const kept = recordAfter(before, 'kept', NOW_MS + 1);
  for (const [one, last] of [
    [held, kept],
    [kept, held],
  ] as const) {
    await store.saveRecords([one, last]);
    const { decisions } = (await disk.open().records()).get(targetKey(before.target)) ?? {};
    expect(decisions).toEqual(last.decisions);
  }
});

const somePass = fc.record({
  happenings: fc.array(
    fc.constantFrom<Happening>('kept', 'kept', 'kept', 'held', 'pulled', 'failed', 'absent', 'unfinished'),
    { minLength: TARGETS.length, maxLength: TARGETS.length },
  ),
  /** Minutes since the last pass: a cached listing may be older. */
  minutes: fc.constantFrom(1, 1, 1, 2, -3),
  end: fc.oneof(
    { weight: 6, arbitrary: fc.constant('well' as const) },
    { weight: 2, arbitrary: fc.constantFrom('fails', 'fails at once', 'restart') },
    { weight: 1, arbitrary: fc.constantFrom('records lost', 'pass lost') },
    { weight: 2, arbitrary: fc.nat(8) },
  ),
});

/** A store, and a model that writes every record. */
class Comparison {
  readonly #disk = new Disk();
  #store = this.#disk.open();
  /** The times of the model. */
  #model = allAt(null);
  /** The latest listing that verified each target. */
  readonly #truth = KEYS.map(() => Number.NEGATIVE_INFINITY);
  #isPassLost = false;

  /** A pass that failed before it had a listing. */
  async failAtOnce(): Promise<void> {
    await this.#store.savePass(NOTE, null);
    const shown = await verifiedTimes(this.#disk);
    // A process that read the last pass saves it again.
    if (!this.#isPassLost) expect(shown).toEqual(this.#model);
    this.#model = shown;
  }

  async pass(happenings: readonly Happening[], listedAtMs: number, end: string | number): Promise<void> {
    const isVerified = happenings.map((each) => VERIFY.has(each));
    for (const [index, is] of isVerified.entries())
      if (is) this.#truth[index] = Math.max(this.#truth[index] ?? 0, listedAtMs);
    this.#disk.writesLeft = typeof end === 'number' ? end : Number.POSITIVE_INFINITY;
    await pass(this.#store, happenings, { listedAtMs, endsWell: end !== 'fails' });
    this.#disk.writesLeft = Number.POSITIVE_INFINITY;
    this.#lose(end);
    const shown = await verifiedTimes(this.#disk);
    const written = this.#model.map((before, index) => (isVerified[index] === true ? listedAtMs : before));
    if (end === 'well' || end === 'restart') expect(shown).toEqual(written);
    for (const [index, timeMs] of shown.entries())
      expect(timeMs ?? Number.NEGATIVE_INFINITY).toBeLessThanOrEqual(this.#truth[index] ?? 0);
    // A failed pass and a loss may leave any earlier time.
    this.#model = shown;
  }

  #lose(end: string | number): void {
    this.#isPassLost = end === 'pass lost';
    if (this.#isPassLost) this.#disk.lose('service');
    if (end === 'records lost') this.#disk.lose('targets');
    if (end === 'restart' || typeof end === 'number') this.#store = this.#disk.open();
  }
}

describe('a note that a tree differs from its manifest', () => {
  const note = { added: 0, missing: 1, modified: 0, first: 'a.xlsx', sinceMs: NOW_MS, needsRepair: true };
  const noteIn = async (store: State): Promise<unknown> =>
    (await store.records()).get(targetKey(target()))?.drift;

  it('is kept for a target without any other record', async () => {
    const disk = new Disk();
    await disk.open().saveDrift(target(), 'Accounting/main', note);
    expect(await noteIn(disk.open())).toEqual(note);
    expect((await disk.open().records()).get(targetKey(target()))?.repository).toBe('Accounting');
    await disk.open().saveDrift(target(), 'Accounting/main', null);
    expect(await noteIn(disk.open())).toBeNull();
  });

  it('is not removed by a pass that began before it', async () => {
    const store = new Disk().open();
    const before = emptyRecord(target(), 'Accounting');
    await store.records();
    await store.saveDrift(target(), 'Accounting/main', note);
    await store.saveRecords([before]);
    expect(await noteIn(store)).toEqual(note);
  });

  it('is removed by the repair of its drift, but not if a later check found it', async () => {
    const store = new Disk().open();
    const later = { ...note, sinceMs: NOW_MS + 1 };
    await store.saveDrift(target(), 'Accounting/main', later);
    const examined = emptyRecord(target(), 'Accounting');
    await store.saveRecords([{ ...examined, examinedAtMs: note.sinceMs }]);
    expect(await noteIn(store)).toEqual(later);
    await store.saveRecords([{ ...examined, examinedAtMs: later.sinceMs }]);
    expect(await noteIn(store)).toBeNull();
  });

  it('is dropped if its check began before the tree was found intact', async () => {
    const store = new Disk().open();
    await store.saveRecords([{ ...emptyRecord(target(), 'Accounting'), examinedAtMs: NOW_MS }]);
    await store.saveDrift(target(), 'Accounting/main', note);
    expect(await noteIn(store)).toBeNull();
    const later = { ...note, sinceMs: NOW_MS + 1 };
    await store.saveDrift(target(), 'Accounting/main', later);
    expect(await noteIn(store)).toEqual(later);
  });
});

it('over all sequences of passes the shown times equal those of a model that writes every record, and are never too late', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(somePass, { maxLength: 12 }), async (passes) => {
      const comparison = new Comparison();
      let listedAtMs = NOW_MS;
      for (const { happenings, minutes, end } of passes) {
        listedAtMs += minutes * MINUTE_MS;
        if (end === 'fails at once') await comparison.failAtOnce();
        else await comparison.pass(happenings, listedAtMs, end);
      }
    }),
    { numRuns: 150 },
  );
});
