import { realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { RequestError } from '../../lib/http/request.ts';
import { latestUntil } from '../../lib/time/wrong-clock.ts';
import { aboutTree, type TargetRecord } from '../../mirror/plan/record.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { knownBranch, targetKey } from '../../mirror/upstream/listing.ts';
import type { Bytes, Content, Library, WantedContent } from '../http/library.ts';
import { defaultBranch, type MirroredTarget } from './catalogue.ts';
import { contentOf, findPlace, TreeChangedError, unlessAbsent } from './contents.ts';
import { busy, createMirrorReader, type Scan } from './mirror-reader.ts';

/**
 * Receives a tree or file that differs from its manifest: the target, the path below its tree, which is empty for the tree itself,
 * and the difference.
 */
type OnTrouble = (target: string, path: string, what: string) => void;

/** Shortest and longest pause before reading again, in milliseconds: a publish may have replaced the tree and not yet the manifest. */
const FIRST_PAUSE_MS = 20;
const LAST_PAUSE_MS = 640;

/** Longest time that the daemon's records are cached, in milliseconds; a stale record never makes data look too young. */
const RECORDS_MS = 5000;

/** A published mirror, as the service reads it. */
export type ReplicaLibrary = ReturnType<typeof createReplicaLibrary>;

/**
 * Makes the library of a published mirror. It works while another process publishes there; it writes and locks nothing.
 * @param directory the setting `directory`
 * @param readRecords reads the daemon's records of the targets, by `targetKey`: it verifies unchanged targets without touching the
 *   manifest. Empty if there are no records, as in a backup
 * @param onTrouble called for each tree or file that is not served
 */
export function createReplicaLibrary(
  directory: string,
  readRecords: () => Promise<ReadonlyMap<string, TargetRecord>>,
  onTrouble: OnTrouble,
) {
  const reader = createMirrorReader(directory);
  const records = shareWork(readRecords, RECORDS_MS);

  const whole = async (): Promise<Scan> => complete(await unlessGone(reader.fresh, onTrouble));

  /**
   * Finds the content of a path. A publish changes the tree first and then the manifest: while the two disagree, they are read
   * again for a while.
   * @throws RequestError 404 for a branch or path that does not exist, 503 for a tree that differs from its manifest
   */
  async function find(wanted: WantedContent): Promise<Content> {
    const { signal } = wanted;
    let target = targetIn(await reader.recent(), wanted) ?? requiredTarget(await reader.fresh(), wanted);
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
      try {
        return await read(target, wanted);
      } catch (error) {
        if (!(error instanceof TreeChangedError)) throw error;
        if (pauseMs > LAST_PAUSE_MS) {
          onTrouble(target.path, error.path, error.message);
          throw busy('the mirrored contents differ from their manifest at the moment');
        }
      }
      await sleep(pauseMs, undefined, { signal });
      target = requiredTarget(await reader.fresh(), wanted);
    }
  }

  /** Reads once. @throws TreeChangedError if tree and manifest disagree or have moved; RequestError 404 for the path */
  async function read(seen: MirroredTarget, { path, signal }: WantedContent): Promise<Content> {
    const { manifest } = await reader.read(seen.path);
    if (keyOf(manifest) !== keyOf(seen.manifest)) throw new TreeChangedError('', 'its manifest has moved');
    const root = await unlessAbsent(realpath(directory));
    if (root === null) throw new TreeChangedError('', 'its folder is missing');
    const tree = publishedTree(layoutOf(root), seen.path);
    const { open, ...facts } = await contentOf(tree, findPlace(manifest.files, path), signal);
    return {
      ...facts,
      verifiedAtMs: verifiedAtMs(manifest, await records()),
      open: (...how) => unlessChanged(open(...how), seen.path, onTrouble),
    };
  }

  return {
    repositories: async (age?: 'recent') => {
      const { byId } = await (age === 'recent' ? unlessGone(reader.recent, onTrouble) : whole());
      return [...byId.values()].map(({ shown }) => shown);
    },
    workbooks: async () => (await whole()).workbooks(),
    verifiedAtMs: async () => oldestOf((await unlessGone(reader.recent, onTrouble)).targets, await records()),
    content: (wanted) => unlessGone(() => find(wanted), onTrouble),
    /** Counts the mirrored targets, for the command that starts the replica. @throws MirrorError `disk.failed` */
    totals: async () => {
      const { byId, targets, unreadable } = await reader.fresh();
      const oldestVerifiedAtMs = oldestOf(targets, await records());
      return { repositories: byId.size, targets: targets.length, unreadable, oldestVerifiedAtMs };
    },
  } satisfies Library & Record<string, unknown>;
}

/** Refuses a request if the disk fails, which is not a defect of this program. @throws RequestError 503 */
async function unlessGone<T>(work: () => Promise<T>, onTrouble: OnTrouble): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof MirrorError) || error.code !== 'disk.failed') throw error;
    onTrouble('the mirror', '', error.message);
    throw busy('the disk of the mirror fails');
  }
}

/** @throws RequestError 503 for a tree that differs from its manifest; this cuts off an answer that has begun */
async function* unlessChanged(bytes: Bytes, target: string, onTrouble: OnTrouble): Bytes {
  try {
    yield* bytes;
  } catch (error) {
    if (!(error instanceof TreeChangedError)) throw error;
    onTrouble(target, error.path, error.message);
    throw busy('the contents changed while they were read');
  }
}

/** An incomplete list would make a mirror of this replica delete the missing targets. @throws RequestError 503 */
function complete(scan: Scan): Scan {
  const [first] = scan.unreadable;
  if (first === undefined) return scan;
  const others = scan.unreadable.length === 1 ? '' : ` and ${scan.unreadable.length - 1} others`;
  throw busy(
    `the list would not be complete, as the manifest of ${first}${others} is missing or cannot be read or understood`,
  );
}

/** When a target was last verified against the service; 0 if the only time is in the future, from a wrong clock. */
function verifiedAtMs(manifest: Manifest, records: ReadonlyMap<string, TargetRecord>): number {
  const record = records.get(keyOf(manifest));
  const rememberedAtMs = record === undefined ? null : aboutTree(record, manifest.publishedAtMs).verifiedAtMs;
  return latestUntil(Date.now(), [manifest.verifiedAtMs, rememberedAtMs]);
}

function oldestOf(
  targets: readonly MirroredTarget[],
  records: ReadonlyMap<string, TargetRecord>,
): number | null {
  const timesMs = targets.map(({ manifest }) => verifiedAtMs(manifest, records));
  return timesMs.length === 0 ? null : timesMs.reduce((one, other) => Math.min(one, other));
}

function targetIn(scan: Scan, { repository, branch }: WantedContent): MirroredTarget | undefined {
  const targets = scan.byId.get(repository.id)?.targets;
  if (branch !== null) return targets?.get(knownBranch(branch)) ?? targets?.get(branch);
  return targets?.get(defaultBranch([...targets.keys()]) ?? '');
}

/** @throws RequestError 404 for a repository or branch that is not mirrored, 503 if that is uncertain */
function requiredTarget(scan: Scan, wanted: WantedContent): MirroredTarget {
  const target = targetIn(scan, wanted);
  if (target !== undefined) return target;
  const { repository, branch } = wanted;
  const targets = complete(scan).byId.get(repository.id)?.targets;
  if (targets === undefined)
    throw new RequestError(404, 'repository_not_found', `there is no repository ${repository.full_name}`);
  const names = [...targets.keys()].join(', ');
  const message =
    branch === null
      ? `${repository.full_name} has several branches and none of them is the usual one: name one of ${names}`
      : `there is no branch ${branch} in this mirror`;
  throw new RequestError(404, 'branch_not_found', message);
}

/** Identifies the branch of a repository whose tree a manifest describes. */
function keyOf({ repository, branch }: Manifest): string {
  return targetKey({ repositoryId: repository.id, branch });
}
