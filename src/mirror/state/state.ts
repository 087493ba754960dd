import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { Keyv } from 'keyv';
import type { z } from 'zod';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type DriftNote, emptyRecord, type TargetRecord } from '../plan/record.ts';
import type { Shard } from '../plan/selection.ts';
import { type ShareReport, shareReportSchema } from '../store/documents.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import {
  type Database,
  namespaceStore,
  openEmbedded,
  openInMemory,
  openSqliteForReading,
} from './database.ts';
import {
  DOCUMENTS,
  type Documents,
  isKnown,
  ownTime,
  recordOf,
  storedRecord,
  type StoredRecord,
  storedRecordSchema,
  hookTreeSchema,
} from './schemas.ts';

/** A tree in the form in which the command after publishing receives it. `publishedAtMs` distinguishes its states. */
export type HookTree = Readonly<Omit<z.infer<typeof hookTreeSchema>, 'target'>>;

/** The result of the last pass. */
export type StoredPass = NonNullable<Documents['last-pass']>;

/** The targets that a pass found unchanged: its listing verified them. */
export interface KeptTargets {
  /** When the listing was taken, in milliseconds since the epoch. */
  readonly listedAtMs: number;
  /** By {@link targetKey}. */
  readonly targets: ReadonlySet<string>;
}

/** The stored state. */
interface Contents {
  /** By {@link targetKey}. */
  readonly records: Map<string, StoredRecord>;
  /** See `lastPassSchema`. Milliseconds since the epoch. */
  readonly listedAtMs: number | null;
}

/** The namespace of an instance's records, for instances that share a directory. */
export function stateIdOf(directoryId: string, shard: Pick<Shard, 'index'> | undefined): string {
  return shard === undefined ? directoryId : `${directoryId}-shard-${shard.index}`;
}

/** Receives the store's failures: once when they begin, and once when a call succeeds again. */
export interface StoreListener {
  readonly onFailed: (error: MirrorError) => void;
  readonly onRecovered: () => void;
}

/** After a failure the store is not used for this long, in milliseconds, so that a pass does not wait for it again and again. */
const PAUSE_MS = 60_000;

/** How a state cache is opened. */
export interface StateOptions {
  /** The setting `state`: `sqlite`, or an address. */
  readonly address: string;
  /** The folder of the embedded store. */
  readonly file: string;
  /** Identifies the directory in a remote store. */
  readonly directoryId: string;
  /** The service that several instances mirror, each its share; they exchange reports in a remote store. Null if there is only one. */
  readonly sharedService: string | null;
  /** Opens the embedded store while another process writes it. */
  readonly readOnly: boolean;
  readonly onReset: (reason: string) => void;
  readonly listener: StoreListener;
}

/** Opens the state cache. @throws MirrorError `state.unavailable`, `settings.invalid` */
export async function openState(options: StateOptions): Promise<State> {
  const { address, sharedService, directoryId, listener } = options;
  // Instances exchange reports only in a remote store: no other process reads an embedded one.
  const isShared = address !== 'sqlite' && sharedService !== null;
  const reports = isShared ? `shares-${hash('sha256', sharedService).slice(0, 16)}` : null;
  return new State(await openDatabase(options), listener, directoryId, reports);
}

async function openDatabase({ address, file, readOnly, onReset }: StateOptions): Promise<Database> {
  if (address !== 'sqlite') return (await import('./remote.ts')).openRemote(address);
  if (readOnly) {
    const readable = openSqliteForReading(file);
    if (readable === null && existsSync(file)) onReset(`${file} cannot be read`);
    return readable ?? openInMemory();
  }
  return openEmbedded(file, onReset);
}

/**
 * The memory in addition to the manifests, in a store that only this process writes. The store reports its failures, which cost
 * requests but fail no pass: then writing returns false, and reading nothing. `records` and `lastPass` throw `state.unavailable`.
 */
export class State {
  readonly #database: Database;
  readonly #listener: StoreListener;
  readonly #targets: Keyv;
  readonly #service: Keyv;
  readonly #hookTrees: Keyv;
  readonly #shares: Keyv | null;
  readonly #queue = new Places(1);
  /** Null while the stored state is unknown: before the first reading, and after a failure. */
  #contents: Contents | null = null;
  #failure: { readonly error: MirrorError; readonly atMs: number } | null = null;

  /** @param reports the namespace of the reports of several instances; null for a single instance */
  constructor(database: Database, listener: StoreListener, directoryId: string, reports: string | null) {
    const namespace = (name: string): Keyv =>
      new Keyv({ store: namespaceStore(database, name), serialization: tolerantJson });
    this.#database = database;
    this.#listener = listener;
    this.#targets = namespace(`${directoryId}-targets`);
    this.#service = namespace(`${directoryId}-service`);
    this.#hookTrees = namespace(`${directoryId}-told`);
    this.#shares = reports === null ? null : namespace(reports);
  }

  /** Reads all records, by {@link targetKey}. A malformed one is ignored. */
  records(): Promise<Map<string, TargetRecord>> {
    return this.#inTurn(async () => {
      this.#contents = await this.#readContents();
      const { records, listedAtMs } = this.#contents;
      return new Map([...records].map(([key, stored]) => [key, recordOf(stored, listedAtMs)]));
    });
  }

  /**
   * Saves the records that changed. The known note of drift stays, unless the record shows a new examination of every byte after the
   * note's look at the tree began: then the drift is repaired.
   */
  saveRecords(changed: readonly TargetRecord[]): Promise<boolean> {
    return this.#saved(async () => {
      if (changed.length === 0) return;
      const { records, listedAtMs } = await this.#known();
      const news = new Map<string, StoredRecord>();
      for (const record of changed) {
        const key = targetKey(record.target);
        const known = records.get(key);
        const note = known?.drift ?? null;
        const isNew = record.examinedAtMs !== known?.examinedAtMs;
        const isRepaired = isNew && note !== null && note.sinceMs <= (record.examinedAtMs ?? 0);
        const wanted = storedRecord({ ...record, drift: isRepaired ? null : note }, listedAtMs);
        if (isKnown(wanted, known)) news.delete(key);
        else news.set(key, wanted);
      }
      await this.#write([...news.values()]);
    });
  }

  /**
   * Notes that a published tree differs from its manifest, or that it does not. The note is dropped if its look at the tree began before
   * every byte of the tree was verified: the drift is repaired. After a clock was set back, the order is unknown.
   * @param path of the target, below `mirror/`
   * @param note null if the tree is right
   */
  saveDrift(target: TargetId, path: string, note: DriftNote | null): Promise<boolean> {
    return this.#saved(async () => {
      const { records } = await this.#known();
      const unknown = emptyRecord(target, path.slice(0, path.lastIndexOf('/')));
      const stored = records.get(targetKey(target)) ?? ownTime(unknown);
      const { drift, examinedAtMs } = stored;
      const isExaminedBefore = examinedAtMs !== null && examinedAtMs <= Date.now();
      if (note !== null && isExaminedBefore && note.sinceMs <= examinedAtMs) return;
      if (!isDeepStrictEqual(drift, note)) await this.#write([{ ...stored, drift: note }]);
    });
  }

  /** Removes records. */
  forgetRecords(gone: readonly TargetRecord[]): Promise<boolean> {
    return this.#saved(async () => {
      if (gone.length === 0) return;
      await this.#targets.deleteMany(gone.map(({ target }) => storeKey(target)));
      for (const { target } of gone) this.#contents?.records.delete(targetKey(target));
    });
  }

  /** The result of the last pass; null if unknown. */
  lastPass(): Promise<StoredPass | null> {
    return this.#inTurn(() => this.#document('last-pass'));
  }

  /**
   * Saves the result of a pass, after its records.
   * @param kept null for a failed pass: it verified nothing
   */
  savePass(pass: Omit<StoredPass, 'listedAtMs'>, kept: KeptTargets | null): Promise<boolean> {
    return this.#saved(async () => {
      const { records, listedAtMs } = await this.#known();
      // The listing verified no others: they keep the time that they had.
      const others =
        kept === null ? [] : [...records].filter(([key, { follows }]) => follows && !kept.targets.has(key));
      await this.#write(others.map(([, stored]) => ownTime(recordOf(stored, listedAtMs))));
      const next = kept?.listedAtMs ?? listedAtMs;
      await this.#service.set('last-pass', { ...pass, listedAtMs: next });
      this.#contents = { records, listedAtMs: next };
    });
  }

  /** Reads a document; null if the store fails. */
  read<Name extends keyof Documents>(name: Name): Promise<Documents[Name] | null> {
    return this.#unlessFailing(() => this.#document(name));
  }

  /** Saves a document. @returns false if the store failed */
  save<Name extends keyof Documents>(name: Name, value: Documents[Name]): Promise<boolean> {
    return this.#saved(() => this.#service.set(name, value));
  }

  /** The trees that the command after publishing received, by the path of their target. */
  async hookTrees(): Promise<Map<string, HookTree> | null> {
    const trees = await this.#unlessFailing(() => valuesOf(this.#hookTrees, hookTreeSchema));
    return trees && new Map(trees.map(({ target, ...tree }): [string, HookTree] => [target, tree]));
  }

  /** Notes the tree that the command last received for a target; null if the tree is gone. */
  saveHookTree(target: string, tree: HookTree | null): Promise<boolean> {
    const key = hash('sha256', target);
    return this.#saved(() =>
      tree === null ? this.#hookTrees.delete(key) : this.#hookTrees.set(key, { target, ...tree }),
    );
  }

  /** Shares this instance's report with the instances that have other shares. */
  saveShare(report: ShareReport): Promise<boolean> {
    const key = `${report.directoryId} ${report.index}`;
    return this.#saved(() => Promise.resolve(this.#shares?.set(key, report)));
  }

  /** The reports of all instances; none from an embedded store. */
  async shares(): Promise<ShareReport[]> {
    const shares = this.#shares;
    if (shares === null) return [];
    return (await this.#unlessFailing(() => valuesOf(shares, shareReportSchema))) ?? [];
  }

  close(): Promise<void> {
    return this.#database.close().catch(() => {});
  }

  async #known(): Promise<Contents> {
    return (this.#contents ??= await this.#readContents());
  }

  async #readContents(): Promise<Contents> {
    // A pass may end in between: the earlier listing is true for all records, read before or after that.
    const before = await this.#document('last-pass');
    const stored = await valuesOf(this.#targets, storedRecordSchema);
    const records = new Map(stored.map((record) => [targetKey(record.target), record]));
    return { records, listedAtMs: before?.listedAtMs ?? null };
  }

  async #document<Name extends keyof Documents>(name: Name): Promise<Documents[Name]> {
    return DOCUMENTS[name].parse(await this.#service.get(name));
  }

  async #write(records: readonly StoredRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#targets.setMany(records.map((record) => ({ key: storeKey(record.target), value: record })));
    for (const record of records) this.#contents?.records.set(targetKey(record.target), record);
  }

  #unlessFailing<T>(read: () => Promise<T>): Promise<T | null> {
    return this.#inTurn(read).catch(() => null);
  }

  /** @returns false if the store failed */
  #saved(write: () => Promise<unknown>): Promise<boolean> {
    return this.#inTurn(write).then(
      () => true,
      () => false,
    );
  }

  /** Writes what is known to a store that was opened again. @returns whether it was */
  async #renew(): Promise<boolean> {
    if ((await this.#database.renew?.()) !== true) return false;
    if (this.#contents === null) return true;
    const { records, listedAtMs } = this.#contents;
    const own = [...records.values()].map((stored) => ownTime(recordOf(stored, listedAtMs)));
    this.#contents = { records: new Map(), listedAtMs: null };
    await this.#write(own);
    return true;
  }

  /** Runs calls one after the other. After a failure, further calls fail without a try for a while, and the stored state is unknown. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      const before = this.#failure;
      if (before !== null && performance.now() - before.atMs < PAUSE_MS) throw before.error;
      try {
        const isRenewed = await this.#renew();
        const result = await work();
        if (before !== null || isRenewed) this.#listener.onRecovered();
        this.#failure = null;
        return result;
      } catch (cause) {
        this.#contents = null;
        const error = unavailable(cause);
        this.#failure = { error, atMs: performance.now() };
        if (before === null) this.#listener.onFailed(error);
        throw error;
      }
    });
  }
}

function unavailable(cause: unknown): MirrorError {
  // If a name has several addresses and none is reached, only the separate errors say why.
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  const message = error instanceof Error ? error.message : String(error);
  return new MirrorError('state.unavailable', `The state cache fails: ${message.replace(/\.$/, '')}.`, {
    cause,
    hint: 'Free disk space, or check the setting state. No data is lost: the cache is rebuilt.',
  });
}

/** JSON that turns a corrupt value into a missing one. */
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

/** The valid values of a namespace. */
async function valuesOf<T>(namespace: Keyv, schema: z.ZodType<T>): Promise<T[]> {
  const values: T[] = [];
  const entries: AsyncIterable<readonly unknown[]> = namespace.iterator();
  for await (const [, value] of entries) {
    const parsed = schema.safeParse(value);
    if (parsed.success) values.push(parsed.data);
  }
  return values;
}

/** Some stores limit a key's length, and a branch's name may be long: the key is a digest, the record names its target. */
function storeKey(target: TargetId): string {
  return hash('sha256', targetKey(target));
}
