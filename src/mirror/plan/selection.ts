import { hash } from 'node:crypto';
import { z } from 'zod';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { Listing, TargetId } from '../upstream/listing.ts';

/** The part of all repositories that one of several instances mirrors: the setting `shard`. */
export interface Shard {
  /** From 1 to `count`. */
  readonly index: number;
  /** How many instances share the work. */
  readonly count: number;
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

/** Mixes the bits of a 32-bit number: the finalizer of MurmurHash3 (Appleby), a bijection in which every bit depends on all. */
function mix(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Whether an instance mirrors a repository; one without a shard mirrors all. */
export function owns(shard: Shard | null, repositoryId: string): boolean {
  return shard === null || ownerOf(repositoryId, shard.count) === shard.index;
}

/** The operator's choice of targets. */
export interface Selection {
  /** Whether the include and exclude filters let a branch of a repository through. */
  readonly selects: (repositoryFullName: string, branch: string) => boolean;
  /** Branches of a repository that are mirrored even if no listing names them. */
  readonly configuredBranches: (repositoryFullName: string) => readonly ConfiguredBranch[];
  /** All patterns of the settings. */
  readonly patterns: readonly SelectionPattern[];
}

/** A pattern of the settings. */
export interface SelectionPattern {
  /** The setting, by its dotted name. */
  readonly setting: string;
  readonly pattern: string;
  /** The part of it that is held against names. */
  readonly name: string;
  /** Full names of repositories, or names of branches. */
  readonly of: 'repository' | 'branch';
  readonly matches: (name: string) => boolean;
}

/** A branch that the settings name. */
export interface ConfiguredBranch {
  readonly branch: string;
  /** True when the settings name this very target, so that its absence is a failure; false for a glob's. */
  readonly required: boolean;
}

const unmatchedSchema = z.object({
  setting: z.string(),
  pattern: z.string(),
  /** A name that may be meant; null where none is near. */
  nearest: z.string().nullable(),
});

/** A pattern of the settings that matches nothing that the service lists. */
export type UnmatchedPattern = Readonly<z.infer<typeof unmatchedSchema>>;

/** The settings' selection, held against a listing. */
export const selectionCheckSchema = z.object({
  /** How many repositories are listed, of the share of this instance. */
  repositories: z.int().min(0),
  /** How many targets are mirrored, or to be mirrored. */
  selected: z.int().min(0),
  unmatched: z.array(unmatchedSchema).readonly(),
});
export type SelectionCheck = Readonly<z.infer<typeof selectionCheckSchema>>;

/** Whether the settings select nothing, although there is something: a mistake. */
export function selectsNothing({
  repositories,
  selected,
}: Pick<SelectionCheck, 'repositories' | 'selected'>): boolean {
  return repositories > 0 && selected === 0;
}

/** The most names that are searched for the one nearest to a pattern. */
const NAMES_COMPARED = 10_000;

/**
 * Holds the patterns of the settings against what a service lists. A list that is empty or not whole proves nothing about them.
 * @param plan what is done about the targets that were found by the same listing
 * @param shard the share of this instance; null where it mirrors all repositories
 */
export function checkSelection(
  { patterns }: Selection,
  { repositories, repositoriesComplete, workbooks }: Listing,
  plan: readonly { readonly target: TargetId; readonly reason: string }[],
  shard: Shard | null,
): SelectionCheck {
  const counts = {
    repositories: repositories.filter(({ id }) => owns(shard, id)).length,
    selected: plan.filter(({ reason }) => reason !== 'not-selected').length,
  };
  if (repositories.length === 0 || !repositoriesComplete) return { ...counts, unmatched: [] };
  // An instance with a share does not know the branches of the other ones.
  const knowsBranches = shard === null && patterns.some((each) => each.of === 'branch');
  const named = knowsBranches ? [...plan.map(({ target }) => target), ...(workbooks ?? [])] : [];
  const names = {
    repository: repositories.map(({ fullName }) => fullName),
    branch: [...new Set(named.map(({ branch }) => branch))],
  };
  const unmatched = patterns.flatMap(({ setting, pattern, name, of, matches }) => {
    const known = names[of];
    if (known.length === 0 || known.some((each) => matches(each))) return [];
    return [{ setting, pattern, nearest: likely(name, known.slice(0, NAMES_COMPARED)) ?? null }];
  });
  return { ...counts, unmatched };
}

/** The whole directory, in the place of a target: an approval of another service is for it. */
export const WHOLE_DIRECTORY: TargetId = { repositoryId: '', branch: '' };

/** Whether a service lists repositories, and none of those that a directory holds. @param mirrored their ids */
export function listsNoneOf(
  mirrored: ReadonlySet<string>,
  { repositories }: Pick<Listing, 'repositories'>,
): boolean {
  return mirrored.size > 0 && repositories.length > 0 && !repositories.some(({ id }) => mirrored.has(id));
}

/**
 * The error of a pass that would mix two services in one directory.
 * @param mirrored how many repositories the directory holds
 * @param formerAddress where they came from; null where that is not on record
 */
export function otherService(
  { address }: Pick<Listing, 'address'>,
  mirrored: number,
  formerAddress: string | null,
): MirrorError {
  const former =
    formerAddress === address ? 'the same address' : (formerAddress ?? 'an address that is not on record');
  const held = counted(mirrored, 'repository', 'repositories');
  return new MirrorError(
    'directory.other_service',
    `The service at ${address} lists none of the ${held} that the directory holds, which came from ${former}. Nothing was published or retired.`,
    {
      hint: `Set service.baseUrl back, or give this service a directory of its own. If it is to be mirrored beside what is there, and what is there is to leave as any other target that is gone: ${ownCommand('approve --all')}.`,
    },
  );
}
