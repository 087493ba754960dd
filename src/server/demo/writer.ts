import { MirrorError } from '../../lib/errors/errors.ts';
import { Git } from '../git/git.ts';
import { readHeads } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';
import { listTree } from '../git/objects.ts';
import { type CommitPlan, type FileChange, makeCommits } from './commits.ts';
import { PEOPLE } from './sample-content.ts';
import type { Samples } from './samples.ts';
import { makeWorkbook } from './workbook-files.ts';

/** One edit as it was made. */
export interface Edit {
  /** Full name of the repository. */
  readonly repository: string;
  readonly branch: string;
  /** For people. */
  readonly summary: string;
  /** The paths that changed; of a renamed workbook both. */
  readonly paths: readonly string[];
  readonly commitId: string;
  /** When the branch had moved; the service shows the edit of an external repository a moment later. */
  readonly committedAt: Date;
}

/** A branch that is edited. */
interface Place {
  readonly repositoryId: string;
  readonly repository: string;
  readonly branch: string;
  readonly head: string;
  /** Where the commit is made: for an external repository not where the service reads. */
  readonly gitDirectory: string;
}

async function findPlaces(git: Git, registry: Registry): Promise<Place[]> {
  const places = registry.list().map(async ({ id, full_name, source }) => {
    const gitDirectory = source ?? registry.gitDirectory(id);
    const heads = await readHeads(git, gitDirectory);
    return [...heads].map(([branch, head]) => ({
      repositoryId: id,
      repository: full_name,
      branch,
      head,
      gitDirectory,
    }));
  });
  return (await Promise.all(places)).flat();
}

async function makeChanges({ change }: EditPlan, at: Date): Promise<FileChange[]> {
  switch (change.kind) {
    case 'remove':
      return [{ kind: 'remove', path: change.workbook }];
    case 'rename':
      return [change];
    case 'write': {
      const content = await makeWorkbook(change.workbook, { seed: at.getTime(), asOf: at });
      const workbook = { kind: 'write', path: change.workbook, content } as const;
      if (change.notes === undefined) return [workbook];
      const notes = {
        kind: 'write',
        path: change.notes,
        content: `Last changed ${at.toISOString()}\n`,
      } as const;
      return [workbook, notes];
    }
  }
}

function pathsOf(changes: readonly FileChange[]): string[] {
  return changes.flatMap((change) => (change.kind === 'rename' ? [change.from, change.to] : [change.path]));
}

/** Edits the sample repositories. */
export type Writer = ReturnType<typeof createWriter>;

/** Makes a writer that goes round all branches of all repositories, and on each one round all kinds of edit. */
export function createWriter({ registry }: Pick<Samples, 'registry'>) {
  const git = new Git();
  const people = Object.values(PEOPLE);
  let edits = 0;

  return {
    /**
     * Makes one commit that changes at least one workbook. The service shows it when this returns.
     * @throws MirrorError when git fails
     */
    async edit(): Promise<Edit> {
      const turn = edits;
      edits += 1;
      const places = await findPlaces(git, registry);
      const place = places[turn % places.length];
      if (place === undefined)
        throw new MirrorError('usage.invalid', 'there is no repository with a branch to edit');
      // Neighbouring branches are at different kinds, so that a short look shows all of them.
      const round = Math.floor(turn / places.length) + (turn % places.length);
      const kind = EDIT_KINDS[round % EDIT_KINDS.length] ?? 'modify';
      const tree = await listTree(git, place.gitDirectory, place.head);
      const workbooks = tree.map(({ path }) => path).filter((path) => path.endsWith('.xlsx'));
      const plan = planEdit(kind, turn, workbooks);

      const at = new Date();
      const changes = await makeChanges(plan, at);
      const author = people[turn % people.length] ?? PEOPLE.anna;
      const message = `${plan.summary.charAt(0).toUpperCase()}${plan.summary.slice(1)}\n`;
      const commit: CommitPlan = { branch: place.branch, from: place.head, author, at, message, changes };
      const [commitId = ''] = await makeCommits(git, place.gitDirectory, [commit]);
      const committedAt = new Date();
      await registry.fetches.fetch(place.repositoryId);
      const { repository, branch } = place;
      return { repository, branch, summary: plan.summary, paths: pathsOf(changes), commitId, committedAt };
    },
  };
}

/** The kinds of edit, in the order in which a branch gets them. */
export const EDIT_KINDS = ['modify', 'modify with notes', 'add', 'rename', 'delete'] as const;

/** One of {@link EDIT_KINDS}. */
export type EditKind = (typeof EDIT_KINDS)[number];

/** An edit before its content is made. */
export interface EditPlan {
  /** For people. */
  readonly summary: string;
  readonly change:
    /** New content for a workbook that is there or is new, and perhaps for a text file. */
    | { readonly kind: 'write'; readonly workbook: string; readonly notes?: string }
    | { readonly kind: 'rename'; readonly from: string; readonly to: string }
    | { readonly kind: 'remove'; readonly workbook: string };
}

/** New workbooks go here, and only from here are workbooks deleted. */
const DRAFTS = 'Drafts/';
/** With more drafts than this, one is deleted instead of added. */
const MOST_DRAFTS = 3;
const NOTES = 'Notes/last change.txt';
const REVIEWED = ' (reviewed)';

function pick(paths: readonly string[], turn: number): string | undefined {
  return paths[turn % Math.max(1, paths.length)];
}

function planAdd(workbooks: readonly string[]): EditPlan {
  const taken = (number: number): boolean =>
    workbooks.some((path) => path.startsWith(`${DRAFTS}Draft ${number}`));
  let number = 1;
  while (taken(number)) number += 1;
  const workbook = `${DRAFTS}Draft ${number}.xlsx`;
  return { summary: `added ${workbook}`, change: { kind: 'write', workbook } };
}

/** The name with the mark of a review put on or taken off again. */
function toggleReviewed(path: string): string {
  const [, stem = path, extension = ''] = /^(.*)(\.[^./]+)$/s.exec(path) ?? [];
  const other = stem.endsWith(REVIEWED) ? stem.slice(0, -REVIEWED.length) : stem + REVIEWED;
  return other + extension;
}

/**
 * Plans an edit that fits what is on the branch; an edit that would have nothing to work on becomes another one, so that
 * the data neither runs out nor grows.
 * @param turn how many edits there were; it decides which workbook is taken
 * @param workbooks paths of the workbooks on the branch
 */
export function planEdit(kind: EditKind, turn: number, workbooks: readonly string[]): EditPlan {
  const drafts = workbooks.filter((path) => path.startsWith(DRAFTS));
  const draft = pick(drafts, turn);
  const workbook = pick(workbooks, turn);
  if (draft !== undefined && (kind === 'delete' || (kind === 'add' && drafts.length >= MOST_DRAFTS))) {
    return { summary: `deleted ${draft}`, change: { kind: 'remove', workbook: draft } };
  }
  if (workbook === undefined || kind === 'add' || kind === 'delete') return planAdd(workbooks);
  if (kind === 'rename') {
    const to = toggleReviewed(workbook);
    if (!workbooks.includes(to)) {
      return { summary: `renamed ${workbook} to ${to}`, change: { kind: 'rename', from: workbook, to } };
    }
  }
  if (kind === 'modify with notes') {
    const change = { kind: 'write', workbook, notes: NOTES } as const;
    return { summary: `changed ${workbook} and ${NOTES}`, change };
  }
  return { summary: `changed ${workbook}`, change: { kind: 'write', workbook } };
}
