import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { Keyv } from 'keyv';
import type { z } from 'zod';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { type DriftNote, emptyRecord, type TargetRecord } from '../plan/record.ts';
import type { Shard, ShareReport } from '../plan/selection.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import {
  type Attempt,
  createAttempt,
  type Database,
  inTime,
  NamespaceStore,
  openInMemory,
  openSqlite,
  openSqliteForReading,
  type StoreListener,
} from './database.ts';
import {
  installationSchema,
  lastPassSchema,
  type ReportedFailures,
  reportedFailuresSchema,
  shareReportSchema,
  storedRecordSchema,
  toldTreeSchema,
  troublesSchema,
} from './schemas.ts';

export type Installation = z.infer<typeof installationSchema>;

/** A tree in the form in which the command after publishing receives it. `publishedAtMs` tells one state of it from the next. */
export type ToldTree = Readonly<Omit<z.infer<typeof toldTreeSchema>, 'target'>>;

/** One value of the state cache. */
interface StateDocument<Value> {
  readonly read: () => Promise<Value>;
  readonly write: (value: NonNullable<Value>) => Promise<void>;
}

/** How the last pass went. */
export type StoredPass = z.infer<typeof lastPassSchema>;

/** The targets that a pass found unchanged: its listing verified them. */
export interface KeptTargets {
  /** When the listing was taken, in milliseconds since the epoch. */
  readonly listedAtMs: number;
  /** By {@link targetKey}. */
  readonly targets: ReadonlySet<string>;
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

/** The memory beside the manifests. Every call may throw a MirrorError `state.unavailable`. */
export type State = Awaited<ReturnType<typeof openState>>;

/** The namespace of an instance's records, for instances that share a directory. */
export function stateIdOf(directoryId: string, shard: Pick<Shard, 'index'> | undefined): string {
  return shard === undefined ? directoryId : `${directoryId}-shard-${shard.index}`;
}

/** How a state store is opened. */
export interface StateOptions {
  /** The setting `state`: `sqlite`, or an address. */
  readonly address: string;
  /** Where the embedded store lies. */
  readonly file: string;
  /** Tells apart the directories that share one remote store. */
  readonly directoryId: string;
  /** The service that several instances mirror, each its share, and tell each other of in a remote store; null where none do. */
  readonly sharedService: string | null;
  /** Opens the embedded store beside the process that writes it. */
  readonly readOnly: boolean;
  readonly onReset: (reason: string) => void;
  readonly listener: StoreListener;
}

/** Opens the state store. @throws MirrorError `state.unavailable`, `settings.invalid` */
export async function openState(options: StateOptions) {
  const { address, sharedService, directoryId } = options;
  const attempt = createAttempt(options.listener);
  const database = await attempt(() => openDatabase(options));
  const namespace = (name: string): Keyv =>
    new Keyv({ store: new NamespaceStore(database, name), serialization: tolerantJson });
  const service = namespace(`${directoryId}-service`);
  const told = namespace(`${directoryId}-told`);
  // Instances tell each other of their shares in a remote store alone: no other process reads an embedded one.
  const isShared = address !== 'sqlite' && sharedService !== null;
  const shares = isShared ? namespace(`shares-${digestOf(sharedService).slice(0, 16)}`) : null;
  const passes = documentOf(service, 'last-pass', lastPassSchema.nullable().catch(null));
  const records = new RecordStore(namespace(`${directoryId}-targets`), passes, attempt);
  const failures = documentOf(service, 'reported-failures', reportedFailuresSchema.catch({}));
  const troubles = documentOf(service, 'troubles', troublesSchema.catch({}));
  const installation = documentOf(service, 'installation', installationSchema.nullable().catch(null));
  return {
    records: () => records.read(),
    saveRecords: (changed: readonly TargetRecord[]) => records.save(changed),
    forgetRecords: (gone: readonly TargetRecord[]) => records.forget(gone),
    /** See {@link RecordStore.saveDrift}. */
    saveDrift: (...args: Parameters<typeof records.saveDrift>) => records.saveDrift(...args),
    lastPass: () => attempt(passes.read),
    /** Saves how a pass went, and the targets that it kept; null for a pass that failed. */
    savePass: (pass: Omit<StoredPass, 'listedAtMs'>, kept: KeptTargets | null) =>
      records.savePass(pass, kept),
    reportedFailures: () => attempt(failures.read),
    saveReportedFailures: (reported: ReportedFailures) => attempt(() => failures.write(reported)),
    /** The troubles that the webhook was told and that are not over. */
    troubles: () => attempt(troubles.read),
    saveTroubles: (present: Readonly<Record<string, string>>) => attempt(() => troubles.write(present)),
    installation: () => attempt(installation.read),
    saveInstallation: (found: Installation) => attempt(() => installation.write(found)),
    /** The trees that the command after publishing was told of, by the path of their target. */
    toldTrees: () =>
      attempt(async () => {
        const trees = await valuesOf(told, toldTreeSchema);
        return new Map(trees.map(({ target, ...tree }): [string, ToldTree] => [target, tree]));
      }),
    /** Notes the tree that the command was last told of for a target; null for none any more. */
    saveToldTree: (target: string, tree: ToldTree | null) =>
      attempt(async () => {
        const key = digestOf(target);
        await (tree === null ? told.delete(key) : told.set(key, { target, ...tree }));
      }),
    /** Tells the instances with other shares of this one's. */
    saveShare: (report: ShareReport) =>
      attempt(async () => {
        await shares?.set(`${report.directoryId} ${report.index}`, report);
      }),
    /** The reports of all instances; none from an embedded store. */
    shares: () => attempt(async () => (shares === null ? [] : valuesOf(shares, shareReportSchema))),
    close: () => inTime(() => database.close()).catch(() => {}),
  };
}

/** @param schema says by `catch` what is read where nothing is kept, or nothing that can be understood */
function documentOf<Value>(service: Keyv, key: string, schema: z.ZodType<Value>): StateDocument<Value> {
  return {
    read: async () => schema.parse(await service.get(key)),
    write: async (value) => {
      await service.set(key, value);
    },
  };
}

/** JSON that makes a corrupt value a missing one. */
const tolerantJson = {
  stringify: (value: unknown): string => JSON.stringify(value),
  parse: <T>(text: string): T => {
    try {
      return JSON.parse(text) as T;
    } catch {
      return undefined as T;
    }
  },
};

async function openDatabase({ address, file, readOnly, onReset }: StateOptions): Promise<Database> {
  if (address !== 'sqlite') return (await import('./remote.ts')).openRemote(address);
  if (readOnly) {
    const readable = openSqliteForReading(file);
    if (readable === null && existsSync(file)) onReset(`${file} cannot be read`);
    return readable ?? openInMemory();
  }
  try {
    return await openSqlite(file, onReset);
  } catch (error) {
    // The mirror needs it to spare requests, and is right without it.
    const why = error instanceof Error ? error.message : String(error);
    onReset(`${file} cannot be opened (${why}); what is remembered is lost when the program ends`);
    return openInMemory();
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The values of a namespace that can be understood. */
async function valuesOf<T>(namespace: Keyv, schema: z.ZodType<T>): Promise<T[]> {
  const values: T[] = [];
  const entries: AsyncIterable<readonly unknown[]> = namespace.iterator();
  for await (const [, value] of entries) {
    const parsed = schema.safeParse(value);
    if (parsed.success) values.push(parsed.data);
  }
  return values;
}

/** The records of targets and the last pass, in a store that only this process writes. Every call may throw `state.unavailable`. */
export class RecordStore {
  readonly #targets: Keyv;
  readonly #lastPass: StateDocument<StoredPass | null>;
  readonly #attempt: Attempt;
  readonly #queue = createSerialQueue();
  /** Null while it is not known what is kept: before the first reading, and after a failure. */
  #contents: Contents | null = null;

  constructor(targets: Keyv, lastPass: StateDocument<StoredPass | null>, attempt: Attempt) {
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
  async save(changed: readonly TargetRecord[]): Promise<void> {
    if (changed.length === 0) return;
    await this.#inTurn(async () => {
      const { records, listedAtMs } = (this.#contents ??= await this.#readContents());
      const news = new Map<string, StoredRecord>();
      for (const record of changed) {
        const key = targetKey(record.target);
        const known = records.get(key);
        const wanted = storedRecord({ ...record, drift: known?.drift ?? null }, listedAtMs);
        if (isKnown(wanted, known)) news.delete(key);
        else news.set(key, wanted);
      }
      await this.#write([...news.values()]);
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
      const unknown = emptyRecord(target, path.slice(0, path.lastIndexOf('/')));
      const stored = records.get(targetKey(target)) ?? ownTime(unknown);
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
      const others = [...records].filter(([key, { follows }]) => follows && !kept.targets.has(key));
      await this.#write(others.map(([, stored]) => ownTime(recordOf(stored, listedAtMs))));
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
    const times = [before, await this.#lastPass.read()].map((pass) => pass?.listedAtMs ?? 0);
    return { records, listedAtMs: times.includes(0) ? null : Math.min(...times) };
  }

  async #write(records: readonly StoredRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#targets.setMany(records.map((record) => ({ key: storeKey(record.target), value: record })));
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
function ownTime(record: TargetRecord): StoredRecord {
  return { ...record, follows: false };
}

/** Whether what is kept says the same, once the pass has ended well. */
function isKnown(wanted: StoredRecord, known: StoredRecord | undefined): boolean {
  if (known === undefined) return false;
  const isRepeated =
    wanted.follows && known.follows && (known.verifiedAtMs ?? 0) <= (wanted.verifiedAtMs ?? 0);
  return isDeepStrictEqual(isRepeated ? { ...wanted, verifiedAtMs: known.verifiedAtMs } : wanted, known);
}

/** Some stores limit a key's length, and a branch's name may be long: the key is a digest, the record names its target. */
function storeKey(target: TargetId): string {
  return digestOf(targetKey(target));
}
