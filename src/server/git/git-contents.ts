import { RequestError } from '../../lib/http/request.ts';
import { partOf } from '../http/conditions.ts';
import type { Bytes, Content } from '../http/library.ts';
import type { Git } from './git.ts';
import { commitOfFolder, findObject } from './objects.ts';
import { type Branches, readBranches } from './refs.ts';

/** Git knows this tree in every repository; its archive is empty. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
/** Workbooks are compressed already; more effort would not make the archive smaller. */
const ZIP_EFFORT = '-1';

/** @returns the empty tree for the default branch of a repository without branches */
function chooseCommit(branches: Branches, branch: string | null): string {
  const name = branch ?? branches.defaultBranch;
  const commitId = name === null ? undefined : branches.heads.get(name);
  if (commitId !== undefined) return commitId;
  if (branch === null && branches.heads.size === 0) return EMPTY_TREE;
  const message =
    branch === null ? `the default branch ${name ?? 'HEAD'} does not exist` : `there is no branch ${branch}`;
  throw new RequestError(404, 'branch_not_found', message);
}

/** Gives the contents of bare repositories, byte for byte as they were committed. */
export function createContents(git: Git) {
  const archiveOf = (gitDirectory: string, treeish: string): Content => ({
    kind: 'archive',
    // Only another version of Git makes other bytes of the same files, and no part of an archive can be requested.
    etag: `"${treeish}"`,
    sizeBytes: null,
    open: (signal) =>
      git.outputForClient(gitDirectory, ['archive', '--format=zip', ZIP_EFFORT, treeish], signal),
  });

  /**
   * Finds the file or folder at a path of a branch.
   * @throws RequestError 404 for a branch or path that does not exist, MirrorError `service.failed`
   */
  return async function contentAt(
    gitDirectory: string,
    branch: string | null,
    path: string,
  ): Promise<Content> {
    const commitId = chooseCommit(await readBranches(git, gitDirectory), branch);
    if (path === '') return archiveOf(gitDirectory, commitId);
    const object = await findObject(git, gitDirectory, commitId, path);
    if (object?.type === 'tree')
      return archiveOf(gitDirectory, await commitOfFolder(git, gitDirectory, commitId, object.id));
    if (object?.type !== 'blob')
      throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
    const args = ['cat-file', 'blob', object.id];
    const open = (signal: AbortSignal): Bytes => git.outputForClient(gitDirectory, args, signal);
    return {
      kind: 'file',
      etag: `"${object.id}"`,
      sizeBytes: object.sizeBytes,
      open: (signal, range) => (range === undefined ? open(signal) : partOf(open(signal), range)),
    };
  };
}
