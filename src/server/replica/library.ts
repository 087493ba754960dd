import { setTimeout as sleep } from 'node:timers/promises';

import { MirrorError } from '../../lib/errors/errors.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { aboutTree, type TargetRecord } from '../../mirror/plan/record.ts';
import { latestUntil } from '../../lib/time/wrong-clock.ts';
import { targetKey, knownBranch } from '../../mirror/upstream/listing.ts';
import type { Content, Library, Repository, ProcessingStatus, WorkbookRow } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { defaultBranch, type MirroredTarget } from './catalogue.ts';
import { contentOf, filesOf, findPlace, pathNotFound } from './mirror-contents.ts';
import { readStamped, type MirrorPort } from './manifests.ts';
import { createProofs, type Proofs } from './proofs.ts';
import { busy, createScanner, type Scan, type Scanner, withheld } from './scans.ts';
import { openTree, TreeChangedError } from './tree.ts';

/** Something that a replica found wrong while it read. */
export interface ReplicaTrouble {
  /** `<repository>/<branch>`. */
  readonly target: string;
  /** Below the tree; empty for the tree itself. */
  readonly path: string;
  readonly what: string;
}

/** A mirror, as the service reads it. */
export interface ReplicaLibrary extends Required<Library> {
  /** Counts the mirrored targets, for the command that starts the replica. */
  readonly totals: () => Promise<ReplicaTotals>;
}

/** How much there is. */
export interface ReplicaTotals {
  readonly repositories: number;
  readonly targets: number;
  readonly unreadable: readonly string[];
  /** When that target was verified that was verified longest ago, in milliseconds since the epoch; null for no target at all. */
  readonly oldestVerifiedAtMs: number | null;
}

/** How long a publish may be between its step and its manifest, and the first wait before it is looked at again, in milliseconds. */
const PATIENCE_MS = 1500;
const FIRST_WAIT_MS = 20;

const DONE: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
/** For a tree that was pulled while the service was not done with it: it is pulled again when it is, of the same version. */
const UNSETTLED: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };

/**
 * Makes the library of a published mirror. Works beside a process that publishes there, and locks and writes nothing.
 * @param onTrouble receives trees and files that differ from their manifest; no client is given these
 */
export function createReplicaLibrary(
  port: MirrorPort,
  onTrouble: (trouble: ReplicaTrouble) => void,
): ReplicaLibrary {
  const scanner = createScanner(port);
  const readers: Readers = {
    port,
    scanner,
    manifests: createManifestMemory(port),
    records: createRecordMemory(port),
    proofs: createProofs(),
    onTrouble,
  };
  const reading = <T>(work: () => Promise<T>): Promise<T> => unlessGone(work, onTrouble);
  return {
    repositories: () => reading(async () => wholeScan(await scanner.fresh()).repositories),
    knownRepositories: () => reading(async () => (await scanner.recent()).repositories),
    workbooks: async () => {
      const scan = wholeScan(await reading(scanner.fresh));
      const unrecovered = new Set(
        scan.targets
          .filter(({ settled }) => !settled)
          .map(({ repository: { id }, branch }) => rowKey(scan.byId.get(id)?.shown.full_name ?? id, branch)),
      );
      const standingOf = ({ integration, branch }: WorkbookRow): ProcessingStatus =>
        unrecovered.has(rowKey(integration, branch)) ? UNSETTLED : DONE;
      return { rows: scan.rows(), standingOf };
    },
    content: (repository, branch, path, signal) =>
      reading(() => findContent(readers, repository, branch, path, signal)),
    verifiedAtMs: async () => oldestOf((await reading(scanner.recent)).targets, await readers.records()),
    totals: async () => {
      const { repositories, targets, unreadable } = await scanner.fresh();
      const oldestVerifiedAtMs = oldestOf(targets, await readers.records());
      return { repositories: repositories.length, targets: targets.length, unreadable, oldestVerifiedAtMs };
    },
  };
}

interface Readers {
  readonly port: MirrorPort;
  readonly scanner: Scanner;
  readonly manifests: ReturnType<typeof createManifestMemory>;
  readonly records: () => Promise<ReadonlyMap<string, TargetRecord>>;
  readonly proofs: Proofs;
  readonly onTrouble: (trouble: ReplicaTrouble) => void;
}

function rowKey(fullName: string, branch: string): string {
  return `${fullName}\n${branch}`;
}

/**
 * A list that lacks something would make a mirror of this replica delete it.
 * @param refusal makes the error
 * @throws RequestError 503
 */
function wholeScan(scan: Scan, refusal: (message: string) => RequestError = busy): Scan {
  const [first] = scan.unreadable;
  if (first === undefined) return scan;
  const others = scan.unreadable.length === 1 ? '' : ` and ${scan.unreadable.length - 1} others`;
  throw refusal(
    `the list would not be whole, as the manifest of ${first}${others} is not there or cannot be read or understood`,
  );
}

/** Refuses a request when the disk fails, as that is no defect of this program. @throws RequestError 503 */
async function unlessGone<T>(
  work: () => Promise<T>,
  onTrouble: (trouble: ReplicaTrouble) => void,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof MirrorError) || error.code !== 'disk.failed') throw error;
    onTrouble({ target: 'the mirror', path: '', what: error.message });
    throw busy('the disk of the mirror does not give what was asked for');
  }
}

/** When a target was last known to be what the service has; 0 where only a clock that was ahead says so. */
function verifiedAtMs(
  {
    repository,
    branch,
    publishedAtMs,
    verifiedAtMs,
  }: Pick<MirroredTarget, 'repository' | 'branch' | 'publishedAtMs' | 'verifiedAtMs'>,
  records: ReadonlyMap<string, TargetRecord>,
): number {
  const record = records.get(targetKey({ repositoryId: repository.id, branch }));
  const rememberedAtMs = record === undefined ? null : aboutTree(record, publishedAtMs).verifiedAtMs;
  return latestUntil(Date.now(), [verifiedAtMs, rememberedAtMs]);
}

function oldestOf(
  targets: readonly MirroredTarget[],
  records: ReadonlyMap<string, TargetRecord>,
): number | null {
  return targets.reduce<number | null>((oldest, target) => {
    const atMs = verifiedAtMs(target, records);
    return oldest === null ? atMs : Math.min(oldest, atMs);
  }, null);
}

/**
 * Finds what stands at a path, in a tree that is what its manifest says. A publish changes the tree first and then the manifest: where
 * the two disagree it is looked again for a while, and nothing is given.
 * @throws RequestError 404 for a branch or path that does not exist, 503 for a tree that is not what its manifest says
 */
async function findContent(
  readers: Readers,
  repository: Repository,
  branch: string | null,
  path: string,
  signal?: AbortSignal,
): Promise<Content> {
  const untilMs = performance.now() + PATIENCE_MS;
  let scan = await readers.scanner.recent();
  for (let waitMs = FIRST_WAIT_MS; ; waitMs *= 2) {
    const outcome = await tryContent(readers, scan, repository, branch, path, signal);
    if (!(outcome instanceof TreeChangedError)) return outcome.content;
    if (performance.now() + waitMs >= untilMs) {
      const target = targetIn(scan, repository, branch)?.path ?? repository.full_name;
      readers.onTrouble({ target, path: outcome.path, what: outcome.message });
      throw withheld('the mirrored contents are not what their manifest says at the moment');
    }
    scan = await readers.scanner.fresh();
    if (scan.byId.get(repository.id)?.shown.full_name !== repository.full_name) {
      if (!scan.byId.has(repository.id)) wholeScan(scan, withheld);
      throw scan.byId.has(repository.id)
        ? withheld('the repository was renamed at this moment')
        : new RequestError(404, 'repository_not_found', `there is no repository ${repository.full_name}`);
    }
    if (targetIn(scan, repository, branch) === null) throw branchNotFound(scan, repository, branch);
    await sleep(waitMs, undefined, { signal });
  }
}

function targetIn(scan: Scan, { id }: Repository, branch: string | null): MirroredTarget | null {
  const targets = scan.byId.get(id)?.targets;
  if (branch !== null) return targets?.get(knownBranch(branch)) ?? targets?.get(branch) ?? null;
  const name = defaultBranch([...(targets?.keys() ?? [])]);
  return name === null ? null : (targets?.get(name) ?? null);
}

function branchNotFound(scan: Scan, { id, full_name }: Repository, branch: string | null): RequestError {
  try {
    wholeScan(scan, withheld);
  } catch (error) {
    if (error instanceof RequestError) return error;
    throw error;
  }
  if (branch !== null) {
    return new RequestError(404, 'branch_not_found', `there is no branch ${branch} in this mirror`);
  }
  const branches = [...(scan.byId.get(id)?.targets.keys() ?? [])].join(', ');
  const message = `${full_name} has several branches and none of them is the usual one: name one of ${branches}`;
  return new RequestError(404, 'branch_not_found', message);
}

/** One look. @returns why not, where tree and manifest disagree or are not where they were */
async function tryContent(
  { port, manifests, records, proofs, onTrouble }: Readers,
  scan: Scan,
  repository: Repository,
  branch: string | null,
  path: string,
  signal?: AbortSignal,
): Promise<{ readonly content: Content } | TreeChangedError> {
  const target = targetIn(scan, repository, branch);
  const manifest = target === null ? null : await manifests.read(target.path);
  if (target === null || manifest === null || !isOf(manifest, target))
    return new TreeChangedError('', 'its manifest is not where it was');
  const place = findPlace(manifest.files, path) ?? pathNotFound(path);
  try {
    const tree = await openTree(port, target.path, proofs);
    if (tree === null) throw new TreeChangedError('', 'its folder is not there');
    try {
      await tree.check(filesOf(place), signal);
      const onBroken = ({ path, message }: TreeChangedError): void =>
        onTrouble({ target: target.path, path, what: message });
      const context = { port, target: target.path, proofs, identity: tree.identity, onBroken };
      const facts = { ...context, verifiedAtMs: verifiedAtMs(manifest, await records()) };
      return { content: contentOf(facts, place) };
    } finally {
      await tree.close();
    }
  } catch (error) {
    if (error instanceof TreeChangedError) return error;
    throw error;
  }
}

function isOf(manifest: Manifest, { repository, branch }: MirroredTarget): boolean {
  return (
    manifest.repository.id === repository.id &&
    manifest.repository.fullName === repository.fullName &&
    manifest.branch === branch
  );
}

/** Files of manifests that are remembered: a client that asks for one file after the other has each parsed once. */
const MOST_FILES = 200_000;

function createManifestMemory(port: MirrorPort) {
  const remembered = new Map<string, { readonly stamp: string; readonly manifest: Manifest }>();
  let files = 0;
  const forget = (target: string): void => {
    files -= remembered.get(target)?.manifest.files.length ?? 0;
    remembered.delete(target);
  };
  return {
    /** The present manifest of a target; null where there is none that can be understood. */
    read: async (target: string): Promise<Manifest | null> => {
      const before = remembered.get(target);
      const read = await readStamped(port, target, before?.stamp ?? null);
      forget(target);
      const kept = read === 'known' ? before : read;
      if (kept === null || kept === undefined || kept.manifest === null) return null;
      const { stamp, manifest } = kept;
      files += manifest.files.length;
      remembered.set(target, { stamp, manifest });
      for (const oldest of remembered.keys()) {
        if (files <= MOST_FILES || oldest === target) break;
        forget(oldest);
      }
      return manifest;
    },
  };
}

/** How long the daemon's records are used before they are read again, in milliseconds. No reported age is too young by it. */
const RECORDS_MS = 5000;

function createRecordMemory(port: MirrorPort): () => Promise<ReadonlyMap<string, TargetRecord>> {
  let readAtMs = -Infinity;
  let records: Promise<ReadonlyMap<string, TargetRecord>> = Promise.resolve(new Map());
  return () => {
    if (performance.now() - readAtMs >= RECORDS_MS) {
      readAtMs = performance.now();
      records = port.records();
    }
    return records;
  };
}
