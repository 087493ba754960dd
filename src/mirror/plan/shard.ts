import { hash } from 'node:crypto';

import { MirrorError } from '../../lib/errors/errors.ts';

/** The part of all repositories that one of several instances mirrors: the setting `shard`. */
export interface Shard {
  /** From 1 to `count`. */
  readonly index: number;
  /** How many instances share the work. */
  readonly count: number;
}

/** Facts about the process, from which `auto` takes its index. */
export interface ShardSurroundings {
  /** Under Kubernetes the name of the pod; that of a StatefulSet's ends with its ordinal, from 0 on. */
  readonly hostName: string;
  /** The variable `JOB_COMPLETION_INDEX` of an Indexed Job, from 0 on; undefined where it is not set. */
  readonly completionIndex: string | undefined;
}

/** More instances than that read the same lists for a share that is hardly worth it. */
const MAX_COUNT = 1024;

const FORM = /^(auto|\d{1,5})\/(\d{1,5})$/;

/**
 * Reads the setting: `2/5`, the second of five, or `auto/5`, which takes the index from where the process runs.
 * @throws MirrorError `settings.invalid`
 */
export function parseShard(text: string, surroundings: ShardSurroundings): Shard {
  const [, which = '', of = ''] = FORM.exec(text) ?? [];
  const count = Number(of);
  if (which === '' || count < 1 || count > MAX_COUNT)
    throw invalid(`expected INDEX/COUNT or auto/COUNT, such as 2/5, with a count from 1 to ${MAX_COUNT}`);
  if (which === 'auto') return { index: ordinalOf(surroundings, count) + 1, count };
  const index = Number(which);
  if (index < 1 || index > count)
    throw invalid(`expected an index from 1 to ${count}, as ${count} instances share the work`);
  return { index, count };
}

/** Writes a shard as the setting has it. */
export function formatShard({ index, count }: Shard): string {
  return `${index}/${count}`;
}

/** The number of the process among its like, from 0 on. @throws MirrorError `settings.invalid` */
function ordinalOf({ hostName, completionIndex }: ShardSurroundings, count: number): number {
  const fromJob = completionIndex !== undefined && completionIndex !== '';
  const text = fromJob ? completionIndex : /-(\d{1,9})$/.exec(hostName)?.[1];
  const source = fromJob ? 'the variable JOB_COMPLETION_INDEX' : `the host name ${JSON.stringify(hostName)}`;
  if (text === undefined)
    throw invalid(
      `expected an index: auto takes it from the number at the end of the host name, as a StatefulSet gives it, or from the variable JOB_COMPLETION_INDEX, and ${source} has none`,
    );
  if (!/^\d{1,9}$/.test(text)) throw invalid(`expected a number in ${source}`);
  const ordinal = Number(text);
  if (ordinal >= count)
    throw invalid(
      `expected a count above ${ordinal}: ${source} says that this is number ${ordinal + 1}, and the count is ${count}`,
    );
  return ordinal;
}

function invalid(message: string): MirrorError {
  return new MirrorError('settings.invalid', message);
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
