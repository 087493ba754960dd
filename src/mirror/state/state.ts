import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { Keyv } from 'keyv';
import type { z } from 'zod';
import type { TargetRecord } from '../plan/record.ts';
import type { ReportedFailures } from './schemas.ts';
import { type Backend, createAttempt, inTime, NamespaceStore, type StoreListener } from './adapter.ts';
import { type KeptTargets, RecordStore, type StoredPass } from './record-store.ts';
import type { Shard, ShareReport } from '../plan/shard.ts';
import {
  installationSchema,
  lastPassSchema,
  reportedFailuresSchema,
  shareReportSchema,
  toldTreeSchema,
  troublesSchema,
} from './schemas.ts';
import { openInMemory, openSqlite, openSqliteForReading } from './sqlite.ts';

export type { KeptTargets, StoredPass } from './record-store.ts';
export type Installation = z.infer<typeof installationSchema>;

/** A tree in the form in which the command after publishing receives it. `publishedAtMs` tells one state of it from the next. */
export type ToldTree = Readonly<Omit<z.infer<typeof toldTreeSchema>, 'target'>>;

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
  readonly onError: (error: unknown) => void;
}

/** Opens the state store. @throws MirrorError `state.unavailable`, `settings.invalid` */
export async function openState(options: StateOptions) {
  const attempt = createAttempt(options.listener);
  const backend = await attempt(() => openBackend(options));
  const namespace = (name: string): Keyv =>
    new Keyv({ store: new NamespaceStore(backend.entries, name), serialization: tolerantJson });
  const open = (name: string): Keyv => namespace(`${options.directoryId}-${name}`);
  const service = open('service');
  const told = open('told');
  const document = <Schema extends z.ZodType>(key: string, schema: Schema): StateDocument<Schema> => {
    const { read, write } = plainDocument(service, key, schema);
    return { read: () => attempt(read), write: (value) => attempt(() => write(value)) };
  };
  const { address, sharedService } = options;
  // Instances tell each other of their shares in a remote store alone: no other process reads an embedded one.
  const isShared = address !== 'sqlite' && sharedService !== null;
  const shares = isShared ? namespace(`shares-${digestOf(sharedService).slice(0, 16)}`) : null;
  const passes = plainDocument(service, 'last-pass', lastPassSchema.nullable().catch(null));
  const records = new RecordStore(open('targets'), passes, attempt);
  const failures = document('reported-failures', reportedFailuresSchema.catch({}));
  const troubles = document('troubles', troublesSchema.catch({}));
  const installation = document('installation', installationSchema.nullable().catch(null));
  return {
    records: () => records.read(),
    saveRecords: (changed: readonly TargetRecord[]) => records.save(changed),
    forgetRecords: (gone: readonly TargetRecord[]) => records.forget(gone),
    reportedFailures: failures.read,
    saveReportedFailures: (reported: ReportedFailures) => failures.write(reported),
    /** See {@link RecordStore.saveDrift}. */
    saveDrift: (...args: Parameters<typeof records.saveDrift>) => records.saveDrift(...args),
    /** The trees that the command after publishing was told of, by the path of their target. */
    toldTrees: () => attempt(() => readToldTrees(told)),
    /** Notes the tree that the command was last told of for a target; null for none any more. */
    saveToldTree: (target: string, tree: ToldTree | null) => attempt(() => writeToldTree(told, target, tree)),
    /** The troubles that the webhook was told and that are not over. */
    troubles: troubles.read,
    saveTroubles: (present: Readonly<Record<string, string>>) => troubles.write(present),
    lastPass: () => attempt(passes.read),
    /** Saves how a pass went, and the targets that it kept; null for a pass that failed. */
    savePass: (pass: Omit<StoredPass, 'listedAtMs'>, kept: KeptTargets | null) =>
      records.savePass(pass, kept),
    /** Tells the instances with other shares of this one's. */
    saveShare: (report: ShareReport) =>
      attempt(async () => {
        await shares?.set(`${report.directoryId} ${report.index}`, report);
      }),
    /** The reports of all instances; none from an embedded store. */
    shares: () => attempt(async () => (shares === null ? [] : valuesOf(shares, shareReportSchema))),
    installation: installation.read,
    saveInstallation: (found: Installation) => installation.write(found),
    close: () => inTime(() => backend.close()).catch(options.onError),
  };
}

/** One value of the state cache. */
interface StateDocument<Schema extends z.ZodType> {
  readonly read: () => Promise<z.output<Schema>>;
  readonly write: (value: z.input<Schema>) => Promise<void>;
}

/** @param schema says by `catch` what is read where nothing is kept, or nothing that can be understood */
function plainDocument<Schema extends z.ZodType>(
  service: Keyv,
  key: string,
  schema: Schema,
): StateDocument<Schema> {
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

async function openBackend(options: StateOptions): Promise<Backend> {
  if (options.address !== 'sqlite') return (await import('./remote.ts')).openRemote(options.address);
  if (options.readOnly) {
    const readable = openSqliteForReading(options.file);
    if (readable === null && existsSync(options.file)) options.onReset(`${options.file} cannot be read`);
    return readable ?? openInMemory();
  }
  try {
    return await openSqlite(options.file, options.onReset);
  } catch (error) {
    // The mirror needs it to spare requests, and is right without it.
    const why = error instanceof Error ? error.message : String(error);
    options.onReset(
      `${options.file} cannot be opened (${why}); what is remembered is lost when the program ends`,
    );
    return openInMemory();
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

async function writeToldTree(told: Keyv, target: string, tree: ToldTree | null): Promise<void> {
  const key = digestOf(target);
  if (tree === null) await told.delete(key);
  else await told.set(key, { target, ...tree });
}

async function readToldTrees(told: Keyv): Promise<Map<string, ToldTree>> {
  const trees = await valuesOf(told, toldTreeSchema);
  return new Map(trees.map(({ target, ...tree }) => [target, tree]));
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
