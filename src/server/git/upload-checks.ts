import type { Upload, UploadTarget } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { Git } from './git.ts';
import { type Branches, readBranches } from './refs.ts';
import { branchInTheWay, branchNameProblem, pathProblem } from './upload-rules.ts';
import { createUploadTree, type UploadTree } from './upload-tree.ts';

/** As many as people put into one commit, and little enough for anybody's memory. */
const FILES_LIMIT = 10_000;
const FOLDERS_LIMIT = 10_000;
/** No path that is uploaded is longer: what comes after it concerns none. */
const EXISTING_LIMIT_BYTES = 4096;

export interface UploadProblem {
  /** The file that is concerned; null for the upload as a whole. */
  readonly path: string | null;
  /** The message about it when the upload is tried. */
  readonly status: 400 | 404 | 409;
  readonly code: 'invalid' | 'branch_not_found' | 'moved' | 'conflict';
  /** Goes on from the path where there is one. */
  readonly message: string;
}

/** The findings about an upload before its files are there. */
export interface Examined {
  /** The commit that it follows; null for a branch that starts empty, and where a problem keeps from finding it. */
  readonly parent: string | null;
  /** In the order in which they matter. */
  readonly problems: readonly UploadProblem[];
  /** Paths of the files that the parent holds already. */
  readonly replaces: readonly string[];
}

/** The names of an upload: where to, and what. */
export interface UploadNames extends UploadTarget {
  readonly paths: readonly string[];
}

/** The error that a problem is when the upload is tried. */
export function refusalOf({ path, status, code, message }: UploadProblem): RequestError {
  return new RequestError(status, code, path === null ? message : `${JSON.stringify(path)} ${message}`);
}

function invalid(message: string): UploadProblem {
  return { path: null, status: 400, code: 'invalid', message };
}

/** Finds problems with the name of the branch that no state of the repository would cure. */
function branchProblem({ branch, seenCommitId, startFrom }: UploadTarget): UploadProblem | null {
  const problem = branchNameProblem(branch);
  if (problem !== null) return invalid(`the branch name ${JSON.stringify(branch)} ${problem}`);
  if (seenCommitId !== null && startFrom !== null)
    return invalid('only a branch that does not exist yet can start from another one');
  return null;
}

/** Finds problems with the names of the files that no state of the repository would cure. */
function readPaths(paths: readonly string[]): {
  readonly problems: readonly UploadProblem[];
  readonly tree: UploadTree | null;
} {
  if (paths.length === 0) return { problems: [invalid('there is no file in this upload')], tree: null };
  if (paths.length > FILES_LIMIT) return { problems: [tooMany(`${FILES_LIMIT} files`)], tree: null };
  const problems: UploadProblem[] = [];
  const good: string[] = [];
  for (const path of paths) {
    const message = pathProblem(path);
    if (message === null) good.push(path);
    else problems.push({ path, status: 400, code: 'invalid', message });
  }
  const tree = createUploadTree(good, FOLDERS_LIMIT);
  if (tree === null) problems.unshift(tooMany(`${FOLDERS_LIMIT} folders`));
  return { problems, tree };
}

function tooMany(what: string): UploadProblem {
  return invalid(`an upload may have ${what}: upload them in parts`);
}

function moved(why: string): UploadProblem {
  const message = `${why}: look at what is there now, and upload again`;
  return { path: null, status: 409, code: 'moved', message };
}

/**
 * Finds the commit that an upload follows.
 * @returns null for a branch that starts empty; a problem where there is no such commit
 */
export function chooseParent(
  { heads }: Branches,
  { branch, seenCommitId, startFrom }: UploadTarget,
): string | null | UploadProblem {
  const head = heads.get(branch) ?? null;
  if (head !== seenCommitId) {
    if (head === null) return moved(`there is no branch ${branch} any more`);
    if (seenCommitId === null) return moved(`there is a branch ${branch} already`);
    return moved(`somebody has changed the branch ${branch} meanwhile`);
  }
  if (head !== null) return head;
  const inTheWay = branchInTheWay(branch, heads.keys());
  if (inTheWay !== null) {
    const message = `no branch ${branch} can be beside the branch ${inTheWay}`;
    return { path: null, status: 409, code: 'conflict', message };
  }
  if (startFrom === null) return null;
  const start = heads.get(startFrom);
  if (start !== undefined) return start;
  return {
    path: null,
    status: 404,
    code: 'branch_not_found',
    message: `there is no branch ${startFrom}`,
  };
}

/**
 * Says what is wrong with an upload, by its names alone, and what it would replace.
 * @throws MirrorError `service.failed` when the repository cannot be read
 */
export async function examine(git: Git, gitDirectory: string, names: UploadNames): Promise<Examined> {
  const problems: UploadProblem[] = [];
  const wrongBranch = branchProblem(names);
  if (wrongBranch !== null) problems.push(wrongBranch);
  const { problems: wrongPaths, tree } = readPaths(names.paths);
  problems.push(...wrongPaths);
  let parent: string | null = null;
  if (wrongBranch === null) {
    const chosen = chooseParent(await readBranches(git, gitDirectory), names);
    if (chosen === null || typeof chosen === 'string') parent = chosen;
    else problems.push(chosen);
  }
  if (tree === null) return { parent, problems, replaces: [] };
  if (parent !== null) {
    const listing = ['ls-tree', '-r', '-z', '--name-only', '--full-tree', parent];
    await git.tokens(gitDirectory, listing, (path) => tree.meet(path), {
      limitBytes: EXISTING_LIMIT_BYTES,
    });
  }
  for (const { path, kind, message } of tree.problems())
    problems.push({ path, status: kind === 'invalid' ? 400 : 409, code: kind, message });
  return { parent, problems, replaces: tree.replaces() };
}

/** The names of an upload whose files are there. */
export function namesOf({ branch, seenCommitId, startFrom, files }: Upload): UploadNames {
  return { branch, seenCommitId, startFrom, paths: files.map(({ path }) => path) };
}
