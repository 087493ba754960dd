import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { Bytes, Upload, Uploads } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import { outputOf } from './contents.ts';
import { settleDefaultBranch } from './default-branch.ts';
import { readFolder } from './folders.ts';
import type { Git } from './git.ts';
import { LASTING_SETTINGS, syncFolders } from './lasting.ts';
import { createLimit } from './limit.ts';
import { findObject } from './objects.ts';
import { presentDirectory } from './present.ts';
import { type Branches, readBranches } from './refs.ts';
import type { Registry } from './registry.ts';
import {
  authorName,
  branchInTheWay,
  branchNameProblem,
  createPathCheck,
  filesProblem,
  messageProblem,
  type PathConflict,
  wholeMessage,
} from './upload-rules.ts';

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const NO_COMMIT = '0'.repeat(40);
/** Large files take long to compress: more at once would not be done sooner. */
const FILES_WRITTEN_AT_ONCE = 4;
/** Workbooks are compressed already; more effort would not make them smaller. */
const COMPRESSION_SETTING: readonly string[] = ['-c', 'core.compression=1'];

/**
 * Makes commits of what people upload to the repositories of a registry.
 * @param maxUploadBytes the greatest file that is received
 */
export function createUploads(git: Git, registry: Registry, maxUploadBytes: number): Uploads {
  const inTurn = createLimit(FILES_WRITTEN_AT_ONCE);
  return {
    maxUploadBytes,
    async branches(repositoryId) {
      const { defaultBranch, heads } = await readBranches(git, presentDirectory(registry, repositoryId));
      const branches = [...heads].map(([name, commitId]) => ({ name, commitId }));
      return { defaultBranch, branches };
    },
    folder: async (repositoryId, commitId, path) =>
      folderAt(git, presentDirectory(registry, repositoryId), commitId, path),
    receive: async (repositoryId, bytes) =>
      withFolderBeside(presentDirectory(registry, repositoryId), async (gitDirectory, folder) => {
        // Git sees the file only when it is whole, and need not hold it in memory as it would from a pipe.
        const path = join(folder, 'file');
        await writeFile(path, limited(bytes, maxUploadBytes));
        return inTurn(() => writeBlob(git, gitDirectory, path));
      }),
    commit: async (repositoryId, upload) => commit(git, presentDirectory(registry, repositoryId), upload),
  };
}

/** Does something with a folder beside a bare repository; what a crash leaves behind, the registry removes by its name. */
async function withFolderBeside<Result>(
  gitDirectory: string,
  work: (gitDirectory: string, folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(dirname(gitDirectory), 'incoming-upload-'));
  try {
    return await work(gitDirectory, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function* limited(bytes: Bytes, limitBytes: number): Bytes {
  let sizeBytes = 0;
  for await (const chunk of bytes) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) throw tooLarge(limitBytes);
    yield chunk;
  }
}

function tooLarge(limitBytes: number): RequestError {
  return new RequestError(413, 'too_large', `a file may have ${limitBytes} bytes`, { connection: 'close' });
}

async function writeBlob(git: Git, gitDirectory: string, path: string): Promise<string> {
  const settings = [...LASTING_SETTINGS, ...COMPRESSION_SETTING];
  const args = [...settings, 'hash-object', '-w', '--no-filters', '--', path];
  const chunks: Uint8Array[] = [];
  for await (const chunk of outputOf(() => git.start(gitDirectory, args))) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8').trim();
}

async function folderAt(
  git: Git,
  gitDirectory: string,
  commitId: string,
  path: string,
): ReturnType<Uploads['folder']> {
  const types = OBJECT_ID.test(commitId) ? await typesOf(git, gitDirectory, [commitId]) : new Map();
  if (types.get(commitId) !== 'commit')
    throw new RequestError(404, 'commit_not_found', `there is no commit ${commitId}`);
  if (path === '') return readFolder(git, gitDirectory, commitId);
  const object = await findObject(git, gitDirectory, commitId, path);
  if (object?.type !== 'tree')
    throw new RequestError(404, 'path_not_found', `there is no folder ${path} in this commit`);
  return readFolder(git, gitDirectory, object.id);
}

/** Reads which of some objects exist, and as what. */
async function typesOf(
  git: Git,
  gitDirectory: string,
  objectIds: readonly string[],
): Promise<Map<string, string>> {
  const output = await git.run(gitDirectory, ['cat-file', '--batch-check=%(objectname) %(objecttype)'], {
    input: objectIds.map((id) => `${id}\n`).join(''),
  });
  const lines = output.toString('utf8').trim().split('\n');
  return new Map(
    lines.map((line): [string, string] => [
      line.slice(0, line.indexOf(' ')),
      line.slice(line.indexOf(' ') + 1),
    ]),
  );
}

/** Refuses what no state of the repository would make good. */
function checkUpload({ branch, seenCommitId, startFrom, message, files }: Upload): void {
  const refuse = (why: string): never => {
    throw new RequestError(400, 'invalid', why);
  };
  const branchProblem = branchNameProblem(branch);
  if (branchProblem !== null) refuse(`the branch name ${JSON.stringify(branch)} ${branchProblem}`);
  if (seenCommitId !== null && startFrom !== null)
    refuse('only a branch that does not exist yet can start from another one');
  const problem = messageProblem(message);
  if (problem !== null) refuse(`the message ${problem}`);
  const wrong = filesProblem(files.map(({ path }) => path));
  if (wrong !== null) refuse(wrong);
  const strange = files.find(({ blobId }) => !OBJECT_ID.test(blobId));
  if (strange !== undefined) refuse(`${JSON.stringify(strange.blobId)} is not the id of a file`);
}

function moved(why: string): RequestError {
  return new RequestError(409, 'moved', `${why}: look at what is there now, and upload again`);
}

/**
 * Finds the commit that an upload follows.
 * @returns null for a branch that starts empty
 * @throws RequestError 404, 409 as {@link Uploads.commit}
 */
function chooseParent({ heads }: Branches, { branch, seenCommitId, startFrom }: Upload): string | null {
  const head = heads.get(branch) ?? null;
  if (head !== seenCommitId) {
    if (head === null) throw moved(`there is no branch ${branch} any more`);
    if (seenCommitId === null) throw moved(`there is a branch ${branch} already`);
    throw moved(`somebody has changed the branch ${branch} meanwhile`);
  }
  if (head !== null) return head;
  const inTheWay = branchInTheWay(branch, heads.keys());
  if (inTheWay !== null)
    throw new RequestError(409, 'conflict', `no branch ${branch} can be beside the branch ${inTheWay}`);
  if (startFrom === null) return null;
  const start = heads.get(startFrom);
  if (start === undefined) throw new RequestError(404, 'branch_not_found', `there is no branch ${startFrom}`);
  return start;
}

async function commit(git: Git, gitDirectory: string, upload: Upload): Promise<string> {
  checkUpload(upload);
  const parent = chooseParent(await readBranches(git, gitDirectory), upload);
  await checkFiles(git, gitDirectory, parent, upload.files);
  const treeId = await writeTree(git, gitDirectory, parent, upload.files);
  if (parent !== null && (await treeOf(git, gitDirectory, parent)) === treeId)
    throw new RequestError(
      409,
      'unchanged',
      'nothing would change: the files are there already, byte for byte',
    );
  const commitId = await writeCommit(git, gitDirectory, { treeId, parent, upload });
  await moveBranch(git, gitDirectory, upload, commitId);
  await settleDefaultBranch(git, gitDirectory);
  await syncFolders(gitDirectory);
  return commitId;
}

function conflictError({ kind, path }: PathConflict): RequestError {
  const what =
    kind === 'file'
      ? `${path} is a file: nothing can be put below it`
      : `${path} is a folder: no file can take its place`;
  return new RequestError(409, 'conflict', what);
}

/** @throws RequestError 400 for a file that was not received, 409 for a file over a folder or the other way round */
async function checkFiles(
  git: Git,
  gitDirectory: string,
  parent: string | null,
  files: Upload['files'],
): Promise<void> {
  const types = await typesOf(
    git,
    gitDirectory,
    files.map(({ blobId }) => blobId),
  );
  const lost = files.find(({ blobId }) => types.get(blobId) !== 'blob');
  if (lost !== undefined)
    throw new RequestError(400, 'file_not_received', `the file for ${lost.path} is not here: send it again`);
  if (parent === null) return;
  const conflictOf = createPathCheck(files.map(({ path }) => path));
  const found: PathConflict[] = [];
  await git.tokens(gitDirectory, ['ls-tree', '-r', '-z', '--name-only', '--full-tree', parent], (path) => {
    const conflict = found.length === 0 ? conflictOf(path) : null;
    if (conflict !== null) found.push(conflict);
  });
  const [first] = found;
  if (first !== undefined) throw conflictError(first);
}

/** Makes the tree of a commit with some files put in, in an index of its own. */
function writeTree(
  git: Git,
  gitDirectory: string,
  parent: string | null,
  files: Upload['files'],
): Promise<string> {
  return withFolderBeside(gitDirectory, async (_, folder) => {
    const environment = { GIT_INDEX_FILE: join(folder, 'index') };
    await git.run(gitDirectory, ['read-tree', parent ?? '--empty'], { environment });
    const input = files.map(({ path, blobId }) => `100644 ${blobId}\t${path}\0`).join('');
    await git.run(gitDirectory, ['update-index', '-z', '--index-info'], { environment, input });
    const output = await git.run(gitDirectory, [...LASTING_SETTINGS, 'write-tree'], { environment });
    return output.toString('utf8').trim();
  });
}

async function treeOf(git: Git, gitDirectory: string, commitId: string): Promise<string> {
  const output = await git.run(gitDirectory, ['rev-parse', '--verify', `${commitId}^{tree}`]);
  return output.toString('utf8').trim();
}

async function writeCommit(
  git: Git,
  gitDirectory: string,
  {
    treeId,
    parent,
    upload,
  }: { readonly treeId: string; readonly parent: string | null; readonly upload: Upload },
): Promise<string> {
  const parents = parent === null ? [] : ['-p', parent];
  const name = authorName(upload.author);
  // A key names a person, and no address.
  const environment = {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: '',
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: '',
  };
  const output = await git.run(gitDirectory, [...LASTING_SETTINGS, 'commit-tree', ...parents, treeId], {
    environment,
    input: wholeMessage(upload.message),
  });
  return output.toString('utf8').trim();
}

/** Lets a branch name a new commit, if it is still where it was. @throws RequestError 409 when it is not */
async function moveBranch(git: Git, gitDirectory: string, upload: Upload, commitId: string): Promise<void> {
  const before = upload.seenCommitId ?? NO_COMMIT;
  const reference = `refs/heads/${upload.branch}`;
  try {
    await git.run(gitDirectory, [...LASTING_SETTINGS, 'update-ref', reference, commitId, before]);
  } catch (error) {
    // Whether somebody was faster shows in the branches, whatever git says.
    chooseParent(await readBranches(git, gitDirectory), upload);
    throw error;
  }
}
