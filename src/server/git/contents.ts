import { RequestError } from '../../lib/http/request.ts';
import type { ByteRange, Bytes, Content } from '../http/library.ts';
import { type Git, settingArguments } from './git.ts';
import { EMPTY_TREE } from './objects.ts';
import { type Branches, readBranches } from './refs.ts';

/** @returns the empty tree for the default branch of a repository without branches */
function chooseCommit(branches: Branches, branch: string | null): string {
  const name = branch ?? branches.defaultBranch;
  const commitId = name === null ? undefined : branches.heads.get(name);
  if (commitId !== undefined) return commitId;
  if (branch === null && branches.heads.size === 0) return EMPTY_TREE;
  if (branch !== null) throw new RequestError(404, 'branch_not_found', `there is no branch ${branch}`);
  // A fetch or a push replaces branches first, and HEAD afterwards.
  throw new RequestError(503, 'processing', 'the default branch is being replaced: ask again');
}

/**
 * Finds the object at a path in a commit.
 * @returns its type (`commit` for a submodule, which has no content here), id, and size if it is a file; null if there is none
 */
async function findObject(git: Git, gitDirectory: string, commitId: string, path: string) {
  // Git would normalize such a path and then find something else, or fail.
  const strange = path.split('/').some((segment) => ['', '.', '..'].includes(segment));
  if (strange || path.includes('\0')) return null;
  const format = '--format=%(objecttype) %(objectname) %(objectsize)';
  const record = await git.text(gitDirectory, ['ls-tree', '--full-tree', format, commitId, '--', path]);
  const [type = '', id = '', size] = record.split(' ');
  return { type, id, sizeBytes: Number(size) };
}

/**
 * Gives a commit that holds just a folder, with the time of the commit it comes from. Archives of a bare tree get the
 * current time, so no two are alike; archives of a commit are the same each time. The commit belongs to no branch.
 * @returns the commit's id, which depends only on the parameters
 */
async function commitOfFolder(git: Git, gitDirectory: string, commitId: string, treeId: string) {
  const date = await git.text(gitDirectory, ['show', '--no-patch', '--format=@%ct +0000', commitId, '--']);
  const author = settingArguments('user.name=workbook-mirror', 'user.email=workbook-mirror@localhost');
  return git.text(gitDirectory, [...author, 'commit-tree', '-m', 'folder', treeId], {
    environment: { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date },
  });
}

/** The archive of a commit, or of the empty tree. */
function archiveOf(git: Git, gitDirectory: string, treeish: string): Content {
  // Workbooks are compressed already; more effort would not make the archive smaller.
  const args = ['archive', '--format=zip', '-1', treeish];
  return {
    kind: 'archive',
    // Only another version of Git makes other bytes of the same files, and no part of an archive can be requested.
    etag: `"${treeish}"`,
    sizeBytes: null,
    open: (signal) => git.outputForClient(gitDirectory, args, signal),
  };
}

/**
 * Gives the file or folder at a path of a branch, byte for byte as it was committed.
 * @throws RequestError 404 for a branch or path that does not exist, MirrorError `service.failed`
 */
export async function contentAt(git: Git, gitDirectory: string, branch: string | null, path: string) {
  const commitId = chooseCommit(await readBranches(git, gitDirectory), branch);
  if (path === '') return archiveOf(git, gitDirectory, commitId);
  const object = await findObject(git, gitDirectory, commitId, path);
  if (object?.type === 'tree')
    return archiveOf(git, gitDirectory, await commitOfFolder(git, gitDirectory, commitId, object.id));
  if (object?.type !== 'blob')
    throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
  const { id, sizeBytes } = object;
  return {
    kind: 'file',
    etag: `"${id}"`,
    sizeBytes,
    open: (signal, range) => {
      const bytes = git.outputForClient(gitDirectory, ['cat-file', 'blob', id], signal);
      return range === undefined ? bytes : partOf(bytes, range);
    },
  } satisfies Content;
}

/** Gives a part of bytes that can only be read from the start, and its end once git has checked all. @throws Error if the part is not there */
async function* partOf(bytes: Bytes, { first, last }: ByteRange): Bytes {
  let at = 0;
  let end: Uint8Array | null = null;
  for await (const chunk of bytes) {
    const from = Math.max(0, first - at);
    const to = Math.min(chunk.length, last + 1 - at);
    at += chunk.length;
    if (from < to && at <= last) yield chunk.subarray(from, to);
    else if (from < to) end = chunk.subarray(from, to);
  }
  if (end !== null) yield end;
  else throw new Error(`there are ${at} bytes, and byte ${last} was promised`);
}
