import { createHash } from 'node:crypto';

import { RequestError } from '../../lib/http/request.ts';
import { partOf } from '../http/conditions.ts';
import type { Bytes, Content } from '../http/library.ts';
import type { Git } from './git.ts';
import { commitOfFolder, findObject } from './objects.ts';
import { type Branches, readBranches } from './refs.ts';

/** A zip without entries is its end record alone: 22 bytes. */
const EMPTY_ZIP = Buffer.concat([Buffer.from('PK\u0005\u0006', 'latin1'), Buffer.alloc(18)]);
/** Workbooks are compressed already; more effort would not make the archive smaller. */
const ZIP_EFFORT = '-1';

/** The entity tag of a Git object: strong, since an object never changes. */
function tagOf(objectId: string, way = ''): string {
  return `"${objectId}${way}"`;
}

/**
 * Describes how archives are made: the git program, the libraries it was built with, and its arguments.
 * While these are the same, a commit always gives the same archive.
 * @returns a short text that goes into entity tags
 */
async function archiveWay(git: Git): Promise<string> {
  const version = await git.run(null, ['version', '--build-options']);
  return createHash('sha256').update(version).update(ZIP_EFFORT).digest('hex').slice(0, 12);
}

/** @returns null for the default branch of a repository without branches */
function chooseCommit(branches: Branches, branch: string | null): string | null {
  const name = branch ?? branches.defaultBranch;
  const commitId = name === null ? undefined : branches.heads.get(name);
  if (commitId !== undefined) return commitId;
  if (branch === null && branches.heads.size === 0) return null;
  const message =
    branch === null ? `the default branch ${name ?? 'HEAD'} does not exist` : `there is no branch ${branch}`;
  throw new RequestError(404, 'branch_not_found', message);
}

async function* emptyZip(): Bytes {
  yield EMPTY_ZIP;
}

/** Gives the contents of bare repositories, byte for byte as they were committed. */
export function createContents(git: Git) {
  let way: string | null = null;

  async function archiveOf(gitDirectory: string, commitId: string): Promise<Content> {
    way ??= await archiveWay(git);
    const args = ['archive', '--format=zip', ZIP_EFFORT, commitId];
    return {
      kind: 'archive',
      etag: tagOf(commitId, `-${way}`),
      sizeBytes: null,
      open: (signal) => git.output(gitDirectory, args, signal),
    };
  }

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
    if (path === '') {
      if (commitId === null)
        return { kind: 'archive', etag: tagOf('empty'), sizeBytes: null, open: emptyZip };
      return archiveOf(gitDirectory, commitId);
    }
    const object = commitId === null ? null : await findObject(git, gitDirectory, commitId, path);
    if (commitId !== null && object?.type === 'tree')
      return archiveOf(gitDirectory, await commitOfFolder(git, gitDirectory, commitId, object.id));
    if (object?.type !== 'blob')
      throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
    const args = ['cat-file', 'blob', object.id];
    const open = (signal: AbortSignal): Bytes => git.output(gitDirectory, args, signal);
    return {
      kind: 'file',
      etag: tagOf(object.id),
      sizeBytes: object.sizeBytes,
      open: (signal, range) => (range === undefined ? open(signal) : partOf(open(signal), range)),
    };
  };
}
