import type { Action } from './actions.ts';
import { likely } from '../../lib/text/nearest.ts';
import type { Listing, TargetId } from '../upstream/listing.ts';
import { ownRepositories, type Shard } from './shard.ts';
import type { Selection } from './input.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';

/** Of so many names the nearest is looked for. */
const NAMES_COMPARED = 10_000;

/** A pattern of the settings that matches nothing that the service lists. */
export interface UnmatchedPattern {
  /** The setting, by its dotted name. */
  readonly setting: string;
  readonly pattern: string;
  /** A name that may be meant; null where none is near. */
  readonly nearest: string | null;
}

/** The settings' selection, held against a listing. */
export interface SelectionCheck {
  /** How many repositories are listed, of the share of this instance. */
  readonly repositories: number;
  /** How many targets are mirrored, or to be mirrored. */
  readonly selected: number;
  readonly unmatched: readonly UnmatchedPattern[];
}

/** Whether the settings select nothing, although there is something: nobody means that. */
export function selectsNothing({
  repositories,
  selected,
}: Pick<SelectionCheck, 'repositories' | 'selected'>): boolean {
  return repositories > 0 && selected === 0;
}

/**
 * Holds the patterns of the settings against what a service lists. A list that is empty or not whole proves nothing about them.
 * @param plan what is done about the targets that were found by the same listing
 * @param shard the share of this instance; null where it mirrors all repositories
 */
export function checkSelection(
  { patterns }: Selection,
  { repositories, repositoriesComplete, workbooks }: Listing,
  plan: readonly Action[],
  shard: Shard | null,
): SelectionCheck {
  const selected = plan.filter(({ reason }) => reason !== 'not-selected').length;
  const counts = { repositories: ownRepositories(repositories, shard).length, selected };
  if (repositories.length === 0 || !repositoriesComplete) return { ...counts, unmatched: [] };
  // Which branches there are elsewhere, an instance with a share does not know.
  const hasBranchPatterns = shard === null && patterns.some((each) => each.of === 'branch');
  const names = {
    repository: repositories.map(({ fullName }) => fullName),
    branch: hasBranchPatterns ? branchesIn(workbooks, plan) : [],
  };
  const unmatched = patterns.flatMap(({ setting, pattern, name, of, matches }) => {
    const known = names[of];
    if (known.length === 0 || known.some((each) => matches(each))) return [];
    return [{ setting, pattern, nearest: likely(name, known.slice(0, NAMES_COMPARED)) ?? null }];
  });
  return { ...counts, unmatched };
}

/** The names of all branches that are known. */
function branchesIn(workbooks: Listing['workbooks'], plan: readonly Action[]): string[] {
  const branches = new Set(plan.map(({ target }) => target.branch));
  for (const { branch } of workbooks ?? []) branches.add(branch);
  return [...branches];
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
    formerAddress === null
      ? 'from an address that is not on record'
      : formerAddress === address
        ? 'from the same address'
        : `from ${formerAddress}`;
  const held = counted(mirrored, 'repository', 'repositories');
  return new MirrorError(
    'directory.other_service',
    `The service at ${address} lists none of the ${held} that the directory holds, which came ${former}. Nothing was published or retired.`,
    {
      hint: `Set service.baseUrl back, or give this service a directory of its own. If it is to be mirrored beside what is there, and what is there is to leave as any other target that is gone: ${ownCommand('approve --all')}.`,
    },
  );
}
