import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import type { Keyv } from 'keyv';
import type { z } from 'zod';

import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { type DriftNote, emptyRecord, type TargetRecord } from '../plan/record.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import type { Attempt } from './adapter.ts';
import { type lastPassSchema, storedRecordSchema } from './schemas.ts';

/** How the last pass went. */
export type StoredPass = z.infer<typeof lastPassSchema>;

/** The targets that a pass found unchanged: its listing verified them. */
export interface KeptTargets {
  /** When the listing was taken, in milliseconds since the epoch. */
  readonly listedAtMs: number;
  /** By {@link targetKey}. */
  readonly targets: ReadonlySet<string>;
}

/** Where the last pass is kept. */
interface PassDocument {
  readonly read: () => Promise<StoredPass | null>;
  readonly write: (pass: StoredPass) => Promise<void>;
}

/**
 * A record as it is kept. Most passes change nothing, and then no record is written: one that `follows` is of a target that every pass
 * since has kept, so that it was verified when the last pass that ended well took its listing.
 */
interface StoredRecord extends TargetRecord {
  readonly follows: boolean;
}

/** Everything that is kept. */
interface Contents {
  /** By {@link targetKey}. */
  readonly records: Map<string, StoredRecord>;
  /** See `lastPassSchema`. Milliseconds since the epoch. */
  readonly listedAtMs: number | null;
}

/** The records of targets and the last pass, in a store that only this process writes. Every call may throw `state.unavailable`. */
export class RecordStore {
  readonly #targets: Keyv;
  readonly #lastPass: PassDocument;
  readonly #attempt: Attempt;
  readonly #queue = createSerialQueue();
  /** Null while it is not known what is kept: before the first reading, and after a failure. */
  #contents: Contents | null = null;

  constructor(targets: Keyv, lastPass: PassDocument, attempt: Attempt) {
    this.#targets = targets;
    this.#lastPass = lastPass;
    this.#attempt = attempt;
  }

  /** Reads all records, by {@link targetKey}. One that cannot be understood counts as none. */
  async read(): Promise<Map<string, TargetRecord>> {
    return this.#inTurn(async () => {
      this.#contents = await this.#readContents();
      const { records, listedAtMs } = this.#contents;
      return new Map([...records].map(([key, stored]) => [key, recordOf(stored, listedAtMs)]));
    });
  }

  /** Saves the records that say something new. What is noted of drift stays: {@link saveDrift} changes it. */
  async save(records: readonly TargetRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#inTurn(async () => {
      const { listedAtMs } = this.#contents ?? { listedAtMs: Number.POSITIVE_INFINITY };
      const known = this.#contents?.records;
      const withDrift = (record: TargetRecord): TargetRecord =>
        known === undefined
          ? record
          : { ...record, drift: known.get(targetKey(record.target))?.drift ?? null };
      const wanted = new Map(
        records.map((record) => [targetKey(record.target), storedRecord(withDrift(record), listedAtMs)]),
      );
      const news = [...wanted].filter(([key, record]) => !isKnown(record, known?.get(key)));
      await this.#write(news.map(([, record]) => record));
    });
  }

  /**
   * Notes that a published tree differs from its manifest, or that it does not. A pass that began before does not undo it.
   * @param path of the target, as below `mirror/`
   * @param note null where the tree is right
   * @param replaced the note that this one replaces, a later one stays; left out for any
   */
  async saveDrift(
    target: TargetId,
    path: string,
    note: DriftNote | null,
    replaced?: DriftNote,
  ): Promise<void> {
    await this.#inTurn(async () => {
      const { records } = (this.#contents ??= await this.#readContents());
      const repository = path.slice(0, path.lastIndexOf('/'));
      const stored = records.get(targetKey(target)) ?? standing(emptyRecord(target, repository));
      if (replaced !== undefined && stored.drift?.sinceMs !== replaced.sinceMs) return;
      if (!isDeepStrictEqual(stored.drift, note)) await this.#write([{ ...stored, drift: note }]);
    });
  }

  /** Removes records. */
  async forget(records: readonly TargetRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#inTurn(async () => {
      await this.#targets.deleteMany(records.map(({ target }) => storeKey(target)));
      for (const { target } of records) this.#contents?.records.delete(targetKey(target));
    });
  }

  /**
   * Saves how a pass went, after its records.
   * @param kept null for a pass that failed: it verified nothing
   */
  async savePass(pass: Omit<StoredPass, 'listedAtMs'>, kept: KeptTargets | null): Promise<void> {
    await this.#inTurn(async () => {
      const { records, listedAtMs } = (this.#contents ??= await this.#readContents());
      if (kept === null) return this.#lastPass.write({ ...pass, listedAtMs });
      // The listing verified no others: from now on they have the time that they had.
      const others = [...records.values()].filter(
        ({ follows, target }) => follows && !kept.targets.has(targetKey(target)),
      );
      await this.#write(others.map((stored) => standing(recordOf(stored, listedAtMs))));
      await this.#lastPass.write({ ...pass, listedAtMs: kept.listedAtMs });
      this.#contents = { records, listedAtMs: kept.listedAtMs };
    });
  }

  async #readContents(): Promise<Contents> {
    // A pass may end in between: the earlier listing is true of all records, whether they were read before or after that.
    const before = await this.#lastPass.read();
    const records = new Map<string, StoredRecord>();
    const entries: AsyncIterable<readonly unknown[]> = this.#targets.iterator();
    for await (const [, value] of entries) {
      const { data } = storedRecordSchema.safeParse(value);
      if (data !== undefined) records.set(targetKey(data.target), data);
    }
    const after = await this.#lastPass.read();
    return { records, listedAtMs: earlier(before?.listedAtMs ?? null, after?.listedAtMs ?? null) };
  }

  async #write(records: readonly StoredRecord[]): Promise<void> {
    if (records.length === 0) return;
    const saved = await this.#targets.setMany(
      records.map((record) => ({ key: storeKey(record.target), value: record })),
    );
    if (saved.includes(false)) throw new Error('the store took only some of the records');
    for (const record of records) this.#contents?.records.set(targetKey(record.target), record);
  }

  /** Does one thing after the other. After a failure it is not known what is kept. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      try {
        return await this.#attempt(work);
      } catch (error) {
        this.#contents = null;
        throw error;
      }
    });
  }
}

/** The record, as it reads after the last pass that ended well. @param listedAtMs when that took its listing; null for never */
function recordOf({ follows, ...record }: StoredRecord, listedAtMs: number | null): TargetRecord {
  if (!follows || listedAtMs === null) return record;
  return { ...record, verifiedAtMs: Math.max(record.verifiedAtMs ?? 0, listedAtMs) };
}

/**
 * The form in which a record is kept. Where a cache gave a listing of before the last one, the record does not follow that.
 * @param listedAtMs as in {@link recordOf}
 */
function storedRecord(record: TargetRecord, listedAtMs: number | null): StoredRecord {
  const isKept = record.decisions[0]?.result === 'kept';
  return { ...record, follows: isKept && (record.verifiedAtMs ?? 0) >= (listedAtMs ?? 0) };
}

/** A record that follows no pass. */
function standing(record: TargetRecord): StoredRecord {
  return { ...record, follows: false };
}

/** Whether what is kept says the same, once the pass has ended well. */
function isKnown(wanted: StoredRecord, known: StoredRecord | undefined): boolean {
  if (known === undefined) return false;
  const isRepeated =
    wanted.follows && known.follows && (known.verifiedAtMs ?? 0) <= (wanted.verifiedAtMs ?? 0);
  const said = isRepeated ? { ...wanted, verifiedAtMs: known.verifiedAtMs } : wanted;
  return Object.entries(said).every(([name, value]) => isSame(value, known[name as keyof StoredRecord]));
}

/** Most values are the very same: comparing all of them deeply would take as long as reading them. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && isDeepStrictEqual(one, other));
}

/** The earlier of two times; null where one of them is never. */
function earlier(oneMs: number | null, otherMs: number | null): number | null {
  return oneMs === null || otherMs === null ? null : Math.min(oneMs, otherMs);
}

/** Some stores limit a key's length, and a branch's name may be long: the key is a digest, the record names its target. */
function storeKey(target: TargetId): string {
  return createHash('sha256').update(targetKey(target)).digest('hex');
}
