import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';

import { Keyv } from 'keyv';
import type { z } from 'zod';

import { MirrorError } from '../model/errors.ts';
import type { ToldTree } from '../model/due-hooks.ts';
import type { TargetRecord } from '../model/record.ts';
import { type TargetId, targetKey } from '../model/service.ts';
import type { DriftNotes } from '../model/status.ts';
import type { ReportedFailures } from '../model/upstream.ts';
import { openRemote } from './remote.ts';
import {
  driftSchema,
  installationSchema,
  lastPassSchema,
  recordSchema,
  reportedFailuresSchema,
  toldTreeSchema,
  troublesSchema,
} from './schemas.ts';
import { type Backend, openSqlite, openSqliteForReading } from './sqlite.ts';

export type StoredPass = z.infer<typeof lastPassSchema>;
export type Installation = z.infer<typeof installationSchema>;

/** What is remembered beside the manifests. Every call may throw a MirrorError `state.unavailable`. */
export interface State {
  readonly records: () => Promise<Map<string, TargetRecord>>;
  readonly saveRecords: (records: readonly TargetRecord[]) => Promise<void>;
  readonly forgetRecords: (records: readonly TargetRecord[]) => Promise<void>;
  readonly reportedFailures: () => Promise<ReportedFailures>;
  readonly saveReportedFailures: (reported: ReportedFailures) => Promise<void>;
  /** Trees that were found to differ from their manifests, by target. */
  readonly drift: () => Promise<DriftNotes>;
  readonly saveDrift: (drift: DriftNotes) => Promise<void>;
  /** The trees that the command after publishing was told of, by the path of their target. */
  readonly toldTrees: () => Promise<Map<string, ToldTree>>;
  /** Notes what the command was told of a target; null for nothing any more. */
  readonly saveToldTree: (target: string, tree: ToldTree | null) => Promise<void>;
  /** The troubles that the webhook was told and that are not over. */
  readonly troubles: () => Promise<Readonly<Record<string, string>>>;
  readonly saveTroubles: (troubles: Readonly<Record<string, string>>) => Promise<void>;
  readonly lastPass: () => Promise<StoredPass | null>;
  readonly savePass: (pass: StoredPass) => Promise<void>;
  readonly installation: () => Promise<Installation | null>;
  readonly saveInstallation: (installation: Installation) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** How a state store is opened. */
export interface StateOptions {
  /** The setting `state`: `sqlite`, or an address. */
  readonly address: string;
  /** Where the embedded store lies. */
  readonly file: string;
  /** Tells apart the directories that share one remote store. */
  readonly directoryId: string;
  /** Opens the embedded store beside the process that writes it. */
  readonly readOnly: boolean;
  readonly onReset: (reason: string) => void;
  readonly onError: (error: unknown) => void;
}

/** Opens the state store. @throws MirrorError `state.unavailable`, `settings.invalid` */
export async function openState(options: StateOptions): Promise<State> {
  const attempt = createAttempt();
  const backend = await attempt(() => openBackend(options));
  const open = async (name: string): Promise<Keyv> => {
    const namespace = `${options.directoryId}-${name}`;
    return new Keyv({ store: await backend.adapter(namespace), namespace, serialization: tolerantJson });
  };
  const targets = await open('targets');
  const service = await open('service');
  const told = await open('told');
  const document = <Schema extends z.ZodType>(key: string, schema: Schema) => ({
    read: () =>
      attempt(async () => {
        const parsed = schema.safeParse(await service.get(key));
        return parsed.success ? parsed.data : null;
      }),
    write: (value: z.input<Schema>) =>
      attempt(async () => {
        await service.set(key, value);
      }),
  });
  const failures = document('reported-failures', reportedFailuresSchema);
  const drift = document('drift', driftSchema);
  const troubles = document('troubles', troublesSchema);
  const lastPass = document('last-pass', lastPassSchema);
  const installation = document('installation', installationSchema);
  return {
    records: () => attempt(() => readRecords(targets)),
    saveRecords: (records) =>
      attempt(async () => {
        if (records.length === 0) return;
        const entries = records.map((record) => ({ key: recordKey(record.target), value: record }));
        const saved = await targets.setMany(entries);
        if (saved.includes(false)) throw new Error('the store took only some of the records');
      }),
    forgetRecords: (records) =>
      attempt(async () => {
        await targets.deleteMany(records.map((record) => recordKey(record.target)));
      }),
    reportedFailures: async () => (await failures.read()) ?? {},
    saveReportedFailures: (reported) => failures.write({ ...reported }),
    drift: async () => (await drift.read()) ?? {},
    saveDrift: (notes) => drift.write({ ...notes }),
    toldTrees: () => attempt(() => readToldTrees(told)),
    saveToldTree: (target, tree) =>
      attempt(async () => {
        const key = digestOf(target);
        if (tree === null) await told.delete(key);
        else await told.set(key, { target, ...tree });
      }),
    troubles: async () => (await troubles.read()) ?? {},
    saveTroubles: (present) => troubles.write({ ...present }),
    lastPass: lastPass.read,
    savePass: lastPass.write,
    installation: installation.read,
    saveInstallation: installation.write,
    close: () => inTime(() => backend.close()).catch(options.onError),
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

async function openBackend(options: StateOptions): Promise<Backend> {
  if (options.address !== 'sqlite') return openRemote(options.address, options.onError);
  if (options.readOnly) {
    const readable = openSqliteForReading(options.file);
    if (readable === null && existsSync(options.file)) options.onReset(`${options.file} cannot be read`);
    return readable ?? emptyBackend();
  }
  try {
    return await openSqlite(options.file, options.onReset);
  } catch (error) {
    // The mirror needs it to spare requests, and is right without it.
    const why = error instanceof Error ? error.message : String(error);
    options.onReset(
      `${options.file} cannot be opened (${why}); what is remembered is lost when the program ends`,
    );
    return emptyBackend();
  }
}

function emptyBackend(): Backend {
  return {
    adapter: () => Promise.resolve(new Keyv().store),
    close: () => Promise.resolve(),
  };
}

/** Some stores limit a key's length, and a branch's name may be long: the key is a digest, the record names its target. */
function recordKey(target: TargetId): string {
  return digestOf(targetKey(target));
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

async function readToldTrees(told: Keyv): Promise<Map<string, ToldTree>> {
  const trees = new Map<string, ToldTree>();
  const entries: AsyncIterable<readonly unknown[]> = told.iterator();
  for await (const [, value] of entries) {
    const parsed = toldTreeSchema.safeParse(value);
    if (!parsed.success) continue;
    const { target, ...tree } = parsed.data;
    trees.set(target, tree);
  }
  return trees;
}

async function readRecords(targets: Keyv): Promise<Map<string, TargetRecord>> {
  const records = new Map<string, TargetRecord>();
  const entries: AsyncIterable<readonly unknown[]> = targets.iterator();
  for await (const [, value] of entries) {
    const parsed = recordSchema.safeParse(value);
    if (parsed.success) records.set(targetKey(parsed.data.target), parsed.data);
  }
  return records;
}

const CALL_TIMEOUT_MS = 5000;

/** A store that failed is left alone for so long, so that a pass does not wait for it again and again. */
const PAUSE_MS = 60_000;

/** Runs a call on the store. @throws MirrorError `state.unavailable` */
type Attempt = <T>(call: () => Promise<T>) => Promise<T>;

/** Makes the way to a store that may be gone: every call has its time, and after a failure the next ones fail at once. */
function createAttempt(): Attempt {
  let failedAtMs = Number.NEGATIVE_INFINITY;
  let failure: MirrorError | null = null;
  return async (call) => {
    if (failure !== null && performance.now() - failedAtMs < PAUSE_MS) throw failure;
    try {
      const result = await inTime(call);
      failure = null;
      return result;
    } catch (error) {
      if (error instanceof MirrorError) throw error;
      failedAtMs = performance.now();
      failure = unavailable(error);
      throw failure;
    }
  };
}

async function inTime<T>(call: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error('it does not answer')), CALL_TIMEOUT_MS);
  });
  try {
    return await Promise.race([call(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function unavailable(cause: unknown): MirrorError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new MirrorError('state.unavailable', `The state store fails: ${message.replace(/\.$/, '')}.`, {
    cause,
    hint: 'Check the setting state. Nothing is lost meanwhile: what it would remember is found out again.',
  });
}
