import { realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { shareWork, type SharedWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { RequestError } from '../../lib/http/request.ts';
import { latestUntil } from '../../lib/time/wrong-clock.ts';
import { aboutTree, type TargetRecord } from '../../mirror/plan/record.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { knownBranch, targetKey } from '../../mirror/upstream/listing.ts';
import type { Bytes, Content, Library, Repository } from '../http/library.ts';
import { defaultBranch, type MirroredTarget } from './catalogue.ts';
import { contentOf, findPlace, TreeChangedError, unlessAbsent } from './contents.ts';
import { busy, MirrorReader, type Scan } from './mirror-reader.ts';

/**
 * Receives a tree or file that differs from its manifest: the target, the path below its tree, which is empty for the tree itself,
 * and the difference.
 */
type OnTrouble = (target: string, path: string, what: string) => void;

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

/** A published mirror, as the service reads it. Works while another process publishes there; writes and locks nothing. */
export class ReplicaLibrary implements Required<Library> {
  readonly #directory: string;
  readonly #onTrouble: OnTrouble;
  readonly #reader: MirrorReader;
  readonly #records: SharedWork<ReadonlyMap<string, TargetRecord>>;

  /**
   * @param directory the setting `directory`
   * @param records reads the daemon's records of the targets, by `targetKey`: it verifies unchanged targets without touching the
   *   manifest. Empty if there are no records, as in a backup
   * @param onTrouble called for each tree or file that is not served
   */
  constructor(
    directory: string,
    records: () => Promise<ReadonlyMap<string, TargetRecord>>,
    onTrouble: OnTrouble,
  ) {
    this.#directory = directory;
    this.#onTrouble = onTrouble;
    this.#reader = new MirrorReader(directory);
    this.#records = shareWork(records, RECORDS_MS);
  }

  async repositories(age?: 'recent'): Promise<readonly Repository[]> {
    const { fresh, recent } = this.#reader;
    const { byId } =
      age === 'recent' ? await this.#unlessGone(recent) : complete(await this.#unlessGone(fresh));
    return [...byId.values()].map(({ shown }) => shown);
  }

  async workbooks(): ReturnType<Library['workbooks']> {
    return complete(await this.#unlessGone(this.#reader.fresh)).workbooks();
  }

  async verifiedAtMs(): Promise<number | null> {
    return oldestOf((await this.#unlessGone(this.#reader.recent)).targets, await this.#records());
  }

  /** Counts the mirrored targets, for the command that starts the replica. @throws MirrorError `disk.failed` */
  async totals(): Promise<ReplicaTotals> {
    const { byId, targets, unreadable } = await this.#reader.fresh();
    const oldestVerifiedAtMs = oldestOf(targets, await this.#records());
    return { repositories: byId.size, targets: targets.length, unreadable, oldestVerifiedAtMs };
  }

  content(
    repository: Repository,
    branch: string | null,
    path: string,
    signal?: AbortSignal,
  ): Promise<Content> {
    return this.#unlessGone(() => this.#find({ repository, branch }, path, signal));
  }

  /** Refuses a request if the disk fails, which is not a defect of this program. @throws RequestError 503 */
  async #unlessGone<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof MirrorError) || error.code !== 'disk.failed') throw error;
      this.#onTrouble('the mirror', '', error.message);
      throw busy('the disk of the mirror fails');
    }
  }

  /**
   * Finds the content of a path. A publish changes the tree first and then the manifest: while the two disagree, they are read
   * again for a while.
   * @throws RequestError 404 for a branch or path that does not exist, 503 for a tree that differs from its manifest
   */
  async #find(wanted: Wanted, path: string, signal: AbortSignal | undefined): Promise<Content> {
    let scan = await this.#reader.recent();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
      const target = targetIn(scan, wanted);
      try {
        return await this.#read(target, path, signal);
      } catch (error) {
        if (!(error instanceof TreeChangedError)) throw error;
        if (pauseMs > LAST_PAUSE_MS) {
          const name = target?.path ?? wanted.repository.full_name;
          this.#onTrouble(name, error.path, error.message);
          throw busy('the mirrored contents differ from their manifest at the moment');
        }
      }
      await sleep(pauseMs, undefined, { signal });
      scan = await this.#reader.fresh();
      requireTarget(scan, wanted);
    }
  }

  /** Reads once. @throws TreeChangedError if tree and manifest disagree or have moved; RequestError 404 for the path */
  async #read(seen: MirroredTarget | null, path: string, signal: AbortSignal | undefined): Promise<Content> {
    if (seen === null) throw new TreeChangedError('', 'its manifest is missing');
    const { manifest } = await this.#reader.read(seen.path);
    if (!isDeepStrictEqual(subjectOf(manifest), subjectOf(seen.manifest)))
      throw new TreeChangedError('', 'its manifest has moved');
    const root = await unlessAbsent(realpath(this.#directory));
    if (root === null) throw new TreeChangedError('', 'its folder is missing');
    const tree = publishedTree(layoutOf(root), seen.path);
    const { open, ...facts } = await contentOf(tree, findPlace(manifest.files, path), signal);
    return {
      ...facts,
      verifiedAtMs: verifiedAtMs(manifest, await this.#records()),
      open: (...how) => this.#unlessChanged(seen.path, open(...how)),
    };
  }

  /** @throws RequestError 503 for a tree that differs from its manifest; this cuts off an answer that has begun */
  async *#unlessChanged(target: string, bytes: Bytes): Bytes {
    try {
      yield* bytes;
    } catch (error) {
      if (!(error instanceof TreeChangedError)) throw error;
      this.#onTrouble(target, error.path, error.message);
      throw busy('the contents changed while they were read');
    }
  }
}

interface Wanted {
  readonly repository: Repository;
  readonly branch: string | null;
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
  const timesMs = targets.map(({ manifest }) => verifiedAtMs(manifest, records));
  return timesMs.length === 0 ? null : timesMs.reduce((one, other) => Math.min(one, other));
}

function targetIn(scan: Scan, { repository, branch }: Wanted): MirroredTarget | null {
  const targets = scan.byId.get(repository.id)?.targets;
  if (branch !== null) return targets?.get(knownBranch(branch)) ?? targets?.get(branch) ?? null;
  return targets?.get(defaultBranch([...targets.keys()]) ?? '') ?? null;
}

/** @throws RequestError 404 for a repository or branch that is not mirrored, 503 if that is uncertain */
function requireTarget(scan: Scan, wanted: Wanted): void {
  if (targetIn(scan, wanted) !== null) return;
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

/** The branch of a repository under a name, whose tree a manifest describes. */
function subjectOf({ repository: { id, fullName }, branch }: Manifest): readonly string[] {
  return [id, fullName, branch];
}
