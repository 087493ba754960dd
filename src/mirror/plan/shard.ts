import { hash } from 'node:crypto';

/** The part of all repositories that one of several instances mirrors: the setting `shard`. */
export interface Shard {
  /** From 1 to `count`. */
  readonly index: number;
  /** How many instances share the work. */
  readonly count: number;
}

/** The account that an instance with a share gives of it after each pass. Times in milliseconds since the epoch. */
export interface ShareReport extends Shard {
  /** Tells directories apart: the same for all that share one. */
  readonly directoryId: string;
  readonly host: string;
  readonly writtenAtMs: number;
  /** Why the last pass failed as a whole, in one sentence; null where it did not. */
  readonly failure: string | null;
  readonly maxStalenessMs: number;
  /** How many targets it mirrors, or is to mirror. */
  readonly targets: number;
  /** How many of them were not as they should be. */
  readonly notWell: number;
  /** When the target was verified that was so the longest time ago; null where there is none, or one never was. */
  readonly oldestVerifiedAtMs: number | null;
}

/**
 * The index of the instance that mirrors a repository, by rendezvous hashing (Thaler and Ravishankar, 1998): the one that scores highest
 * for it. The same everywhere without any memory; with one instance more, only that one's share has another owner.
 * @returns from 1 to `count`
 */
export function ownerOf(repositoryId: string, count: number): number {
  const digest = hash('sha256', repositoryId, 'buffer');
  const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
  let owner = 1;
  let best = -1;
  for (let index = 1; index <= count; index += 1) {
    const score = mix(high ^ mix(low ^ mix(index)));
    if (score <= best) continue;
    best = score;
    owner = index;
  }
  return owner;
}

/** Whether an instance mirrors a repository; one without a shard mirrors all. */
export function owns(shard: Shard | null, repositoryId: string): boolean {
  return shard === null || ownerOf(repositoryId, shard.count) === shard.index;
}

/** The repositories of a share, or all where there is none. */
export function ownRepositories<R extends { readonly id: string }>(
  repositories: readonly R[],
  shard: Shard | null,
): readonly R[] {
  return shard === null ? repositories : repositories.filter(({ id }) => owns(shard, id));
}

/** Mixes the bits of a 32-bit number: the finalizer of MurmurHash3 (Appleby), a bijection in which every bit depends on all. */
function mix(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
