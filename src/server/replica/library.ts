import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { shareWork, type SharedWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { RequestError } from '../../lib/http/request.ts';
import { latestUntil } from '../../lib/time/wrong-clock.ts';
import { aboutTree, type TargetRecord } from '../../mirror/plan/record.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { knownBranch, targetKey } from '../../mirror/upstream/listing.ts';
import type { Bytes, Content, Library, ProcessingStatus, Repository, WorkbookRow } from '../http/library.ts';
import { defaultBranch, type MirroredTarget } from './catalogue.ts';
import { contentOf, findPlace } from './contents.ts';
import type { MirrorPort } from './manifests.ts';
import { busy, isReadable, type Scan, Scanner } from './scans.ts';
import { checkFiles, TreeChangedError, unlessAbsent } from './tree.ts';

/** A difference between a mirror and its manifests that a replica found. */
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

/** The size and the age of a mirror. */
export interface ReplicaTotals {
  readonly repositories: number;
  readonly targets: number;
  readonly unreadable: readonly string[];
  /** Verification time of the target verified longest ago, in milliseconds since the epoch; null without targets. */
  readonly oldestVerifiedAtMs: number | null;
}

/** Shortest and longest pause before reading again, in milliseconds: a publish may have replaced the tree and not yet the manifest. */
const FIRST_PAUSE_MS = 20;
const LAST_PAUSE_MS = 640;

/** Longest time that the daemon's records are cached, in milliseconds; a stale record never makes data look too young. */
const RECORDS_MS = 5000;

const DONE: ProcessingStatus = { status: 'success', processing: 0, failure: 0 };
/** Status of a tree pulled while the service was processing it: the same version is pulled again after that. */
const UNSETTLED: ProcessingStatus = { status: 'processing', processing: 1, failure: 0 };

/**
 * Makes the library of a published mirror. Works while another process publishes there; locks and writes nothing.
 * @param onTrouble receives trees and files that differ from their manifest; these are not served
 */
export function createReplicaLibrary(
  port: MirrorPort,
  onTrouble: (trouble: ReplicaTrouble) => void,
): ReplicaLibrary {
  const scanner = new Scanner(port);
  const records = shareWork(port.records, RECORDS_MS);
  const readers: Readers = { port, scanner, records, onTrouble };
  const scan = (work: SharedWork<Scan>): Promise<Scan> => unlessGone(work, onTrouble);
  return {
    repositories: async () => complete(await scan(scanner.fresh)).repositories,
    knownRepositories: async () => (await scan(scanner.recent)).repositories,
    workbooks: async () => workbooksOf(complete(await scan(scanner.fresh))),
    content: (repository, branch, path, signal) =>
      unlessGone(() => findContent(readers, { repository, branch, path }, signal), onTrouble),
    verifiedAtMs: async () => oldestOf((await scan(scanner.recent)).targets, await records()),
    totals: async () => {
      const { repositories, targets, unreadable } = await scanner.fresh();
      const oldestVerifiedAtMs = oldestOf(targets, await records());
      return { repositories: repositories.length, targets: targets.length, unreadable, oldestVerifiedAtMs };
    },
  };
}

interface Readers {
  readonly port: MirrorPort;
  readonly scanner: Scanner;
  readonly records: SharedWork<ReadonlyMap<string, TargetRecord>>;
  readonly onTrouble: (trouble: ReplicaTrouble) => void;
}

interface Wanted {
  readonly repository: Repository;
  readonly branch: string | null;
  readonly path: string;
}

/**
 * An incomplete list would make a mirror of this replica delete the missing targets.
 * @param refusal makes the error
 * @throws RequestError 503
 */
function complete(scan: Scan, refusal: (message: string) => RequestError = busy): Scan {
  const [first] = scan.unreadable;
  if (first === undefined) return scan;
  const others = scan.unreadable.length === 1 ? '' : ` and ${scan.unreadable.length - 1} others`;
  throw refusal(
    `the list would not be complete, as the manifest of ${first}${others} is missing or cannot be read or understood`,
  );
}

/**
 * The answer to a request for contents that are unavailable at the moment. It has no Retry-After: clients would apply it to the whole
 * service (RFC 9110, section 15.6.4), which gives all other contents.
 */
function withheld(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`);
}

/** Refuses a request if the disk fails, which is not a defect of this program. @throws RequestError 503 */
async function unlessGone<T>(
  work: () => Promise<T>,
  onTrouble: (trouble: ReplicaTrouble) => void,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof MirrorError) || error.code !== 'disk.failed') throw error;
    onTrouble({ target: 'the mirror', path: '', what: error.message });
    throw busy('the disk of the mirror fails');
  }
}

function workbooksOf(scan: Scan): Awaited<ReturnType<Library['workbooks']>> {
  const key = (fullName: string, branch: string): string => `${fullName}\n${branch}`;
  const unsettled = new Set(
    scan.targets
      .filter(({ manifest }) => !manifest.settled)
      .map(
        ({
          manifest: {
            repository: { id },
            branch,
          },
        }) => key(scan.byId.get(id)?.shown.full_name ?? id, branch),
      ),
  );
  const standingOf = ({ integration, branch }: WorkbookRow): ProcessingStatus =>
    unsettled.has(key(integration, branch)) ? UNSETTLED : DONE;
  return { rows: scan.rows(), standingOf };
}

/** When a target was last verified against the service; 0 if the only time is in the future, from a wrong clock. */
function verifiedAtMs(
  { repository, branch, publishedAtMs, verifiedAtMs }: Manifest,
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
  return targets.reduce<number | null>((oldest, { manifest }) => {
    const atMs = verifiedAtMs(manifest, records);
    return oldest === null ? atMs : Math.min(oldest, atMs);
  }, null);
}

/**
 * Finds the content of a path. A publish changes the tree first and then the manifest: while the two disagree, they are read
 * again for a while.
 * @throws RequestError 404 for a branch or path that does not exist, 503 for a tree that differs from its manifest
 */
async function findContent(readers: Readers, wanted: Wanted, signal?: AbortSignal): Promise<Content> {
  let scan = await readers.scanner.recent();
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
    const target = targetIn(scan, wanted);
    try {
      return await contentIn(readers, target, wanted.path, signal);
    } catch (error) {
      if (!(error instanceof TreeChangedError)) throw error;
      if (pauseMs > LAST_PAUSE_MS) {
        const { path, message: what } = error;
        readers.onTrouble({ target: target?.path ?? wanted.repository.full_name, path, what });
        throw withheld('the mirrored contents differ from their manifest at the moment');
      }
    }
    await sleep(pauseMs, undefined, { signal });
    scan = await readers.scanner.fresh();
    requireTarget(scan, wanted);
  }
}

function targetIn(
  scan: Scan,
  { repository, branch }: Pick<Wanted, 'repository' | 'branch'>,
): MirroredTarget | null {
  const targets = scan.byId.get(repository.id)?.targets;
  if (branch !== null) return targets?.get(knownBranch(branch)) ?? targets?.get(branch) ?? null;
  const name = defaultBranch([...(targets?.keys() ?? [])]);
  return name === null ? null : (targets?.get(name) ?? null);
}

/** @throws RequestError 404 for a repository or branch that is not mirrored, 503 if that is uncertain */
function requireTarget(scan: Scan, { repository, branch }: Wanted): void {
  const { id, full_name } = repository;
  const mirrored = scan.byId.get(id);
  if (mirrored !== undefined && mirrored.shown.full_name !== full_name)
    throw withheld('the repository was just renamed');
  if (targetIn(scan, { repository, branch }) !== null) return;
  complete(scan, withheld);
  if (mirrored === undefined)
    throw new RequestError(404, 'repository_not_found', `there is no repository ${full_name}`);
  const message =
    branch === null
      ? `${full_name} has several branches and none of them is the usual one: name one of ${[...mirrored.targets.keys()].join(', ')}`
      : `there is no branch ${branch} in this mirror`;
  throw new RequestError(404, 'branch_not_found', message);
}

/** Reads once. @throws TreeChangedError if tree and manifest disagree or have moved; RequestError 404 for the path */
async function contentIn(
  { port, records, scanner, onTrouble }: Readers,
  seen: MirroredTarget | null,
  path: string,
  signal?: AbortSignal,
): Promise<Content> {
  const target = seen === null ? null : await scanner.read(seen.path);
  if (seen === null || !isReadable(target) || !isSame(target.manifest, seen.manifest))
    throw new TreeChangedError('', 'its manifest has moved or is missing');
  const { manifest } = target;
  const place = findPlace(manifest.files, path);
  const root = await unlessAbsent(realpath(port.directory));
  if (root === null) throw new TreeChangedError('', 'its folder is missing');
  const tree = join(root, ...port.wayToTree(target.path));
  await checkFiles(tree, place.kind === 'file' ? [place.file] : place.files, signal);
  const { open, ...facts } = contentOf(tree, place);
  return {
    ...facts,
    verifiedAtMs: verifiedAtMs(manifest, await records()),
    open: (...range) =>
      unlessChanged(open(...range), ({ path, message: what }) =>
        onTrouble({ target: target.path, path, what }),
      ),
  };
}

/** Whether two manifests are of the same branch of a repository under the same name. */
function isSame(one: Manifest, other: Manifest): boolean {
  return (
    one.repository.id === other.repository.id &&
    one.repository.fullName === other.repository.fullName &&
    one.branch === other.branch
  );
}

/** @throws RequestError 503 for a tree that differs from its manifest; this cuts off an answer that has begun */
async function* unlessChanged(bytes: Bytes, onChanged: (error: TreeChangedError) => void): Bytes {
  try {
    yield* bytes;
  } catch (error) {
    if (!(error instanceof TreeChangedError)) throw error;
    onChanged(error);
    throw withheld('the contents changed while they were read');
  }
}
