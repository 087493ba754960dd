import { hash } from 'node:crypto';
import { z } from 'zod';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { type Listing, type TargetId, targetKey } from '../upstream/listing.ts';
import type { Approvals } from './guard.ts';

/** The share of the repositories that one of several instances mirrors: the setting `shard`. */
export interface Shard {
  /** From 1 to `count`. */
  readonly index: number;
  /** How many instances share the work. */
  readonly count: number;
}

/**
 * The index of the instance that mirrors a repository, by rendezvous hashing (Thaler and Ravishankar, 1998): the one with the highest
 * score. It is the same everywhere without any memory; one instance more only takes its own share from the others.
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
  /** Branches of a repository that are mirrored even if no listing has them. */
  readonly configuredBranches: (repositoryFullName: string) => readonly ConfiguredBranch[];
  /** All patterns in the settings. */
  readonly patterns: readonly SelectionPattern[];
}

/** A pattern in the settings. */
export interface SelectionPattern {
  /** The dotted name of the setting. */
  readonly setting: string;
  readonly pattern: string;
  /** The part of it that is matched against names. */
  readonly name: string;
  /** Full names of repositories, or names of branches. */
  readonly of: 'repository' | 'branch';
  readonly matches: (name: string) => boolean;
}

/** A branch that the settings name. */
export interface ConfiguredBranch {
  readonly branch: string;
  /** True if the settings name this very target, so that its absence is a failure; false for a match of a glob. */
  readonly required: boolean;
}

const unmatchedSchema = z.object({
  setting: z.string(),
  pattern: z.string(),
  /** A similar name that may be meant; null if there is none. */
  nearest: z.string().nullable(),
});

/** A pattern in the settings that matches nothing in the service's lists. */
export type UnmatchedPattern = Readonly<z.infer<typeof unmatchedSchema>>;

/** The settings' selection, compared with a listing. */
export const selectionCheckSchema = z.object({
  /** How many repositories are listed in this instance's share. */
  repositories: z.int().min(0),
  /** How many targets are mirrored, or will be. */
  selected: z.int().min(0),
  unmatched: z.array(unmatchedSchema).readonly(),
});
export type SelectionCheck = Readonly<z.infer<typeof selectionCheckSchema>>;

/** Whether the settings select nothing, although the service lists something: a mistake. */
export function selectsNothing({
  repositories,
  selected,
}: Pick<SelectionCheck, 'repositories' | 'selected'>): boolean {
  return repositories > 0 && selected === 0;
}

/** The most names that are compared with a pattern to find a similar one. */
const NAMES_COMPARED = 10_000;

/**
 * Compares the patterns in the settings with the service's lists. An empty or incomplete list proves nothing about them.
 * @param plan the actions for the targets of the same listing
 * @param shard this instance's share; null if it mirrors all repositories
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
  // An instance with a share does not know the branches of the other instances' repositories.
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

/** Names the whole directory in place of a target: an approval of another service is for it. */
export const WHOLE_DIRECTORY: TargetId = { repositoryId: '', branch: '' };

/** Whether a service lists repositories, but none that a directory holds. @param mirrored their ids */
export function listsNoneOf(
  mirrored: ReadonlySet<string>,
  { repositories }: Pick<Listing, 'repositories'>,
): boolean {
  return mirrored.size > 0 && repositories.length > 0 && !repositories.some(({ id }) => mirrored.has(id));
}

/**
 * Whether an operator let a pass mirror another service than the directory did before. Call this if the service lists none of the
 * mirrored repositories.
 * @param mirrored how many repositories the directory holds
 * @param formerAddress the former service's address; null if it is not on record
 * @returns false if the service may be the same one
 * @throws MirrorError `directory.other_service` if no operator allowed it
 */
export function isOtherServiceApproved(
  { address, repositoriesComplete }: Pick<Listing, 'address' | 'repositoriesComplete'>,
  mirrored: number,
  approvals: Approvals,
  formerAddress: string | null,
): boolean {
  const isSameAddress = formerAddress === address;
  // A single repository may simply have been deleted and made again.
  if (isSameAddress && mirrored === 1) return false;
  // If a list is not whole, only another address shows that it is another service's.
  if (!repositoriesComplete && (isSameAddress || formerAddress === null)) return false;
  if (approvals.get(targetKey(WHOLE_DIRECTORY))?.subject === 'service') return true;
  const former = isSameAddress ? 'the same address' : (formerAddress ?? 'an address that is not on record');
  const held = counted(mirrored, 'repository', 'repositories');
  throw new MirrorError(
    'directory.other_service',
    `The service at ${address} lists none of the ${held} that the directory holds, which came from ${former}. Nothing was published or retired.`,
    {
      hint: `Set service.baseUrl back, or give this service a directory of its own. \`${ownCommand('approve --all')}\` mirrors it here all the same, and retires the present targets like any others that are gone.`,
    },
  );
}
