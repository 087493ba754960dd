import { MirrorError } from '../../lib/errors/errors.ts';
import { Git } from '../git/git.ts';
import { listFiles } from '../git/objects.ts';
import { readHeads } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';
import { makeCommits } from './commits.ts';
import { PEOPLE } from './sample-content.ts';
import { makeWorkbook } from './workbook-files.ts';

/** One finished edit. */
export interface Edit {
  /** Full name of the repository. */
  readonly repository: string;
  readonly branch: string;
  /** For people: `changed Budget 2026.xlsx`. */
  readonly summary: string;
  readonly path: string;
  readonly commitId: string;
  /** Time when the branch moved; the service shows an edit of an external repository a moment later. */
  readonly committedAt: Date;
}

/** The kinds of edit, in the order in which a branch gets them. */
export const EDIT_KINDS = ['modify', 'add', 'delete'] as const;

/** An edit before its content is made. */
interface EditPlan {
  readonly kind: (typeof EDIT_KINDS)[number];
  readonly path: string;
}

/** Folder of new workbooks; workbooks are deleted only here. */
const DRAFTS = 'Drafts/';
/** At this number of drafts, one is deleted instead of added. */
const MOST_DRAFTS = 3;

/**
 * Plans an edit that is possible on the branch. An edit without a workbook to work on becomes another one, so that the data
 * neither runs out nor grows.
 * @param turn number of edits so far; it selects the workbook
 * @param workbooks paths of the workbooks on the branch
 */
export function planEdit(kind: EditPlan['kind'], turn: number, workbooks: readonly string[]): EditPlan {
  const drafts = workbooks.filter((path) => path.startsWith(DRAFTS));
  const draft = drafts[turn % Math.max(1, drafts.length)];
  const workbook = workbooks[turn % Math.max(1, workbooks.length)];
  if (draft !== undefined && (kind === 'delete' || (kind === 'add' && drafts.length >= MOST_DRAFTS)))
    return { kind: 'delete', path: draft };
  if (kind === 'modify' && workbook !== undefined) return { kind, path: workbook };
  let number = 1;
  while (drafts.includes(`${DRAFTS}Draft ${number}.xlsx`)) number += 1;
  return { kind: 'add', path: `${DRAFTS}Draft ${number}.xlsx` };
}

const SUMMARIES = { modify: 'changed', add: 'added', delete: 'deleted' } as const;

/**
 * Makes a writer that visits all branches of all repositories in turn, each time with the next kind of edit.
 * @returns makes one commit that changes one workbook, which the service then shows; throws MirrorError when git fails
 */
export function createWriter(registry: Registry): () => Promise<Edit> {
  const git = new Git();
  const people = Object.values(PEOPLE);
  let edits = 0;
  return async () => {
    const turn = edits;
    edits += 1;
    const places = await branchesOf(git, registry);
    const place = places[turn % places.length];
    if (place === undefined)
      throw new MirrorError('usage.invalid', 'there is no repository with a branch to edit');
    const { id, full_name: repository, gitDirectory, branch, head } = place;
    // Neighbouring branches start with different kinds, so that a short demo shows all of them.
    const round = Math.floor(turn / places.length) + (turn % places.length);
    const tree = await listFiles(git, gitDirectory, head);
    const workbooks = tree.map(({ path }) => path).filter((path) => path.endsWith('.xlsx'));
    const { kind, path } = planEdit(EDIT_KINDS[round % EDIT_KINDS.length] ?? 'modify', turn, workbooks);
    const at = new Date();
    const content = kind === 'delete' ? null : await makeWorkbook({ seed: at.getTime(), asOf: at });
    const summary = `${SUMMARIES[kind]} ${path}`;
    const author = people[turn % people.length] ?? PEOPLE.anna;
    const changes = [{ path, content }];
    const commit = { branch, from: head, author, at, message: `${summary}\n`, changes };
    const [commitId = ''] = await makeCommits(git, gitDirectory, [commit]);
    const committedAt = new Date();
    await registry.fetches.fetch(id);
    return { repository, branch, summary, path, commitId, committedAt };
  };
}

/** The branches of all repositories; branches of an external repository are read at its source, not in the service's copy. */
async function branchesOf(git: Git, registry: Registry) {
  const places = registry.list().map(async ({ id, full_name, source }) => {
    const gitDirectory = source ?? registry.gitDirectory(id);
    const heads = await readHeads(git, gitDirectory);
    return [...heads].map(([branch, head]) => ({ id, full_name, gitDirectory, branch, head }));
  });
  return (await Promise.all(places)).flat();
}
