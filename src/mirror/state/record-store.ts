import { createHash, randomUUID } from 'node:crypto';

import { Keyv, type KeyvStorageAdapter } from 'keyv';

import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import type { TargetRecord } from '../plan/record.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import type { Attempt } from './attempt.ts';
import {
  type KnownRecord,
  planWrites,
  readWithMark,
  type RepeatMark,
  standing,
  type StoredRecord,
} from './repeats.ts';
import { recordSchema } from './schemas.ts';

/** Where the mark is kept that records follow. */
export interface MarkDocument {
  readonly read: () => Promise<RepeatMark | null>;
  readonly write: (mark: RepeatMark) => Promise<void>;
}

/** Everything that is kept, as it reads. */
interface Contents {
  readonly known: Map<string, KnownRecord>;
  readonly mark: RepeatMark;
}

/** The records of targets, in a store that nobody else writes. Every call may throw a MirrorError `state.unavailable`. */
export class RecordStore {
  private readonly attempt: Attempt;
  private readonly mark: MarkDocument;
  private readonly texts = new RecordTexts();
  private readonly targets: Keyv;
  /** Null while it is not known what is kept: no record follows the mark then, and it stays as it is. */
  private contents: Contents | null = null;
  private readonly queue = createSerialQueue();

  constructor(store: KeyvStorageAdapter, namespace: string, mark: MarkDocument, attempt: Attempt) {
    this.targets = new Keyv({ store, namespace, serialization: this.texts });
    this.mark = mark;
    this.attempt = attempt;
  }

  /** Reads all records, by {@link targetKey}. One that cannot be understood counts as none. */
  async read(): Promise<Map<string, TargetRecord>> {
    const contents = await this.inTurn(() => this.readContents());
    return new Map([...contents.known].map(([key, { record }]) => [key, record]));
  }

  /** Saves records. */
  async save(records: readonly TargetRecord[]): Promise<void> {
    if (records.length === 0) return;
    const wanted = new Map(records.map((record) => [targetKey(record.target), record]));
    await this.inTurn(() => this.write(wanted));
  }

  /** Removes records. */
  async forget(records: readonly TargetRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.inTurn(async () => {
      await this.targets.deleteMany(records.map((record) => storeKey(record.target)));
      for (const { target } of records) this.contents?.known.delete(targetKey(target));
      return this.contents;
    });
  }

  private async readContents(): Promise<Contents> {
    // First the mark: what is written meanwhile by another process stands for itself, or follows a later one.
    const mark = await this.mark.read();
    const known = new Map<string, KnownRecord>();
    this.texts.turnOver();
    const entries: AsyncIterable<readonly unknown[]> = this.targets.iterator();
    for await (const [, value] of entries) {
      if (!isStored(value)) continue;
      known.set(targetKey(value.target), { record: readWithMark(value, mark), follows: value.follows });
    }
    this.texts.forgetFormer();
    return { known, mark: mark ?? this.firstMark() };
  }

  /** Where no mark is kept, none was written yet, or it was lost: then no record may follow the next one as it did that. */
  private firstMark(): RepeatMark {
    const mark = this.contents?.mark;
    return mark?.pass === 0 ? mark : { epoch: randomUUID(), pass: 0, verifiedAtMs: 0, decidedAtMs: 0 };
  }

  private async write(wanted: ReadonlyMap<string, TargetRecord>): Promise<Contents | null> {
    const { contents } = this;
    if (contents === null) {
      await this.writeRecords([...wanted.values()].map(standing));
      return null;
    }
    const writes = planWrites(contents.known, contents.mark, wanted);
    await this.writeRecords(writes.records);
    if (writes.mark !== null) await this.mark.write(writes.mark);
    const { known } = contents;
    for (const { follows, ...record } of writes.records) {
      known.set(targetKey(record.target), { record, follows });
    }
    for (const [key, record] of wanted) known.set(key, { record, follows: known.get(key)?.follows ?? null });
    return { known, mark: writes.mark ?? contents.mark };
  }

  private async writeRecords(records: readonly StoredRecord[]): Promise<void> {
    if (records.length === 0) return;
    const saved = await this.targets.setMany(
      records.map((record) => ({ key: storeKey(record.target), value: record })),
    );
    if (saved.includes(false)) throw new Error('the store took only some of the records');
  }

  /** Does one thing after the other, and knows afterwards what is kept. After a failure that is not known any more. */
  private inTurn<Known extends Contents | null>(work: () => Promise<Known>): Promise<Known> {
    return this.queue.run(async () => {
      try {
        const contents = await this.attempt(work);
        this.contents = contents;
        return contents;
      } catch (error) {
        this.contents = null;
        throw error;
      }
    });
  }
}

/** Some stores limit a key's length, and a branch's name may be long: the key is a digest, the record names its target. */
function storeKey(target: TargetId): string {
  return createHash('sha256').update(targetKey(target)).digest('hex');
}

function isStored(value: unknown): value is StoredRecord {
  return value !== null && value !== undefined;
}

/**
 * The texts of records. One that was read in the reading before is not understood again; what is no record is a missing value.
 * The values are wrapped as the store's library wraps them.
 */
class RecordTexts {
  private former = new Map<string, { readonly value: StoredRecord | null }>();
  private current = new Map<string, { readonly value: StoredRecord | null }>();

  readonly stringify = (value: unknown): string => JSON.stringify(value);

  readonly parse = <T>(text: string): T => {
    const wrapped = this.current.get(text) ?? this.former.get(text) ?? understand(text);
    this.current.set(text, wrapped);
    return wrapped as T;
  };

  /** Begins a new reading. */
  turnOver(): void {
    this.former = this.current;
    this.current = new Map();
  }

  /** Ends a reading: the texts that it met are there twice by now. */
  forgetFormer(): void {
    this.former = new Map();
  }
}

function understand(text: string): { readonly value: StoredRecord | null } {
  try {
    const wrapped: unknown = JSON.parse(text);
    if (typeof wrapped !== 'object' || wrapped === null || !('value' in wrapped)) return { value: null };
    const parsed = recordSchema.safeParse(wrapped.value);
    return { value: parsed.success ? parsed.data : null };
  } catch {
    return { value: null };
  }
}
