import type { Answer } from './answer.ts';
import { entityTag, matchesTag } from './etag.ts';
import type { Git } from './git.ts';
import { commitOfFolder, findObject } from './objects.ts';
import { type Branches, readBranches } from './refs.ts';
import type { Registry } from './registry.ts';
import { chooseReading } from './repository-reference.ts';
import { RequestError } from './request-error.ts';
import type { ContentsReading } from './routes.ts';

/** A request for contents (service specification, section 4.1). */
export interface ContentsRequest {
  readonly readings: readonly ContentsReading[];
  /** Null when the request names none. */
  readonly branch: string | null;
  /** Value of If-None-Match, if it was sent. */
  readonly ifNoneMatch: string | undefined;
}

const XLSX_TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';
/** A zip without entries is its end record alone: 22 bytes. */
const EMPTY_ZIP = Buffer.concat([Buffer.from('PK\u0005\u0006', 'latin1'), Buffer.alloc(18)]);
/** Workbooks are compressed already; more effort would not make the archive smaller. */
const ZIP_EFFORT = '-1';

function chooseCommit(branches: Branches, branch: string | null): string | null {
  const name = branch ?? branches.defaultBranch;
  const commitId = name === null ? undefined : branches.heads.get(name);
  if (commitId !== undefined) return commitId;
  if (branch === null && branches.heads.size === 0) return null;
  const what =
    branch === null ? `the default branch ${name ?? 'HEAD'} does not exist` : `there is no branch ${branch}`;
  throw new RequestError(404, 'branch_not_found', what);
}

function fileAnswer(
  git: Git,
  gitDirectory: string,
  blobId: string,
  path: string,
  lengthBytes: number,
): Answer {
  const type = path.toLowerCase().endsWith('.xlsx') ? XLSX_TYPE : 'application/octet-stream';
  return {
    kind: 'git',
    status: 200,
    headers: { 'content-type': type },
    lengthBytes,
    start: (signal) => git.start(gitDirectory, ['cat-file', 'blob', blobId], { signal }),
  };
}

function archiveAnswer(git: Git, gitDirectory: string, commitId: string): Answer {
  return {
    kind: 'git',
    status: 200,
    headers: { 'content-type': 'application/zip' },
    start: (signal) => git.start(gitDirectory, ['archive', '--format=zip', ZIP_EFFORT, commitId], { signal }),
  };
}

async function contentOf(
  git: Git,
  gitDirectory: string,
  commitId: string | null,
  path: string,
): Promise<Answer> {
  if (commitId === null && path === '') {
    return { kind: 'bytes', status: 200, headers: { 'content-type': 'application/zip' }, body: EMPTY_ZIP };
  }
  if (commitId !== null && path === '') return archiveAnswer(git, gitDirectory, commitId);
  const object = commitId === null ? null : await findObject(git, gitDirectory, commitId, path);
  if (commitId !== null && object?.type === 'tree') {
    return archiveAnswer(git, gitDirectory, await commitOfFolder(git, gitDirectory, commitId, object.id));
  }
  if (object?.type === 'blob') return fileAnswer(git, gitDirectory, object.id, path, object.sizeBytes);
  throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
}

/**
 * Answers a request for a repository, a folder or a single file with the bytes that were committed.
 * @throws RequestError 404 for a repository, branch or path that does not exist, 409 for an ambiguous repository
 */
export async function answerContents(
  git: Git,
  registry: Registry,
  request: ContentsRequest,
): Promise<Answer> {
  const { repository, path } = chooseReading(registry.list(), request.readings);
  const gitDirectory = registry.gitDirectory(repository.id);
  const commitId = chooseCommit(await readBranches(git, gitDirectory), request.branch);
  const etag = entityTag(commitId, path);
  const content = await contentOf(git, gitDirectory, commitId, path);
  if (matchesTag(request.ifNoneMatch, etag)) return { kind: 'bare', status: 304, headers: { etag } };
  return { ...content, headers: { ...content.headers, etag } };
}
