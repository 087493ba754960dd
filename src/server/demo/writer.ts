import { MirrorError } from '../../lib/errors/errors.ts';
import { Git } from '../git/git.ts';
import { listFiles } from '../git/objects.ts';
import { readHeads } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';
import { makeCommits } from './commits.ts';
import { PEOPLE } from './sample-content.ts';
import { makeWorkbook } from './workbook-files.ts';

/** One finished edit. */
export type Edit = Awaited<ReturnType<ReturnType<typeof createWriter>>>;

/** The only workbook that is added and deleted, so that the data neither runs out nor grows. */
const DRAFT = 'Drafts/Draft.xlsx';

/**
 * Plans the next edit of a branch: in turn, a change of a workbook, a new draft, and its deletion.
 * @param round number of edits of this branch so far
 * @param turn number of edits of all branches so far; it selects the workbook
 * @param workbooks paths of the workbooks on the branch
 */
export function planEdit(round: number, turn: number, workbooks: readonly string[]) {
  const workbook = workbooks[turn % workbooks.length];
  if (round % 3 === 0 && workbook !== undefined) return { kind: 'changed', path: workbook } as const;
  return { kind: workbooks.includes(DRAFT) ? 'deleted' : 'added', path: DRAFT } as const;
}

/**
 * Makes a writer that visits all branches of all repositories in turn, each time with the next kind of edit.
 * @returns makes one commit that changes one workbook, which the service then shows; throws MirrorError when git fails
 */
export function createWriter(registry: Registry) {
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
    const { kind, path } = planEdit(round, turn, workbooks);
    const at = new Date();
    const content = kind === 'deleted' ? null : await makeWorkbook(at);
    const summary = `${kind} ${path}`;
    const author = people[turn % people.length] ?? PEOPLE.anna;
    const changes = [{ path, content }];
    const commit = { branch, from: head, author, at, message: `${summary}\n`, changes };
    const [commitId = ''] = await makeCommits(git, gitDirectory, [commit]);
    // The service shows an edit of an external repository a moment later.
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
