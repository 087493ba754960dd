import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { Places } from '../../lib/concurrency/places.ts';
import type { Bytes, Upload, Uploads } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { settleDefaultBranch, readBranches } from './refs.ts';
import { readFolder, findObject } from './objects.ts';
import type { Git } from './git.ts';
import { settingArguments } from './git-process.ts';
import { LASTING_SETTINGS, syncFolders } from './bare.ts';
import { presentDirectory } from './registrar.ts';
import type { Registry } from './registry.ts';
import { chooseParent, examine, namesOf, refusalOf } from './upload-checks.ts';
import { authorName, messageProblem, wholeMessage } from './upload-rules.ts';

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const NO_COMMIT = '0'.repeat(40);
/** Large files take long to compress: more at once would not be done sooner. */
const FILES_WRITTEN_AT_ONCE = 4;
const BLOB_SETTINGS: readonly string[] = [
  ...LASTING_SETTINGS,
  ...settingArguments(
    // Workbooks are compressed already; more effort would not make them smaller.
    'core.compression=1',
    // Else each file above our threshold would become a pack of its own.
    'core.bigFileThreshold=512m',
  ),
];

/**
 * Makes commits of what people upload to the repositories of a registry.
 * @param maxUploadBytes the greatest file that is received
 */
export function createUploads(git: Git, registry: Registry, maxUploadBytes: number): Uploads {
  const places = new Places(FILES_WRITTEN_AT_ONCE);
  return {
    maxUploadBytes,
    async branches(repositoryId) {
      const { defaultBranch, heads } = await readBranches(git, presentDirectory(registry, repositoryId));
      const branches = [...heads].map(([name, commitId]) => ({ name, commitId }));
      return { defaultBranch, branches };
    },
    folder: async (repositoryId, commitId, path) =>
      folderAt(git, presentDirectory(registry, repositoryId), commitId, path),
    async check(repositoryId, names) {
      const { problems, replaces } = await examine(git, presentDirectory(registry, repositoryId), names);
      return { problems: problems.map(({ path, message }) => ({ path, message })), replaces };
    },
    receive: async (repositoryId, bytes) =>
      withFolderBeside(presentDirectory(registry, repositoryId), async (gitDirectory, folder) => {
        // Git sees the file only when it is whole, and need not hold it in memory as it would from a pipe.
        const path = join(folder, 'file');
        await writeFile(path, limited(bytes, maxUploadBytes));
        return places.run(() => writeBlob(git, gitDirectory, path));
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

function writeBlob(git: Git, gitDirectory: string, path: string): Promise<string> {
  const args = [...BLOB_SETTINGS, 'hash-object', '-w', '--no-filters', '--', path];
  return git.text(gitDirectory, args, { isLong: true });
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
  const output = await git.text(gitDirectory, ['cat-file', '--batch-check=%(objectname) %(objecttype)'], {
    input: objectIds.map((id) => `${id}\n`).join(''),
  });
  const pairs = output.split('\n').map((line) => line.split(' '));
  return new Map(pairs.map(([id = '', type = '']) => [id, type]));
}

/** Refuses what is wrong with an upload besides its names. */
function checkText({ message, files }: Upload): void {
  const problem = messageProblem(message);
  if (problem !== null) throw new RequestError(400, 'invalid', `the message ${problem}`);
  const strange = files.find(({ blobId }) => !OBJECT_ID.test(blobId));
  if (strange === undefined) return;
  throw new RequestError(400, 'invalid', `${JSON.stringify(strange.blobId)} is not the id of a file`);
}

async function commit(git: Git, gitDirectory: string, upload: Upload): Promise<string> {
  checkText(upload);
  const { parent, problems } = await examine(git, gitDirectory, namesOf(upload));
  const [problem] = problems;
  if (problem !== undefined) throw refusalOf(problem);
  await checkReceived(git, gitDirectory, upload.files);
  const treeId = await writeTree(git, gitDirectory, parent, upload.files);
  if (parent !== null && (await treeOf(git, gitDirectory, parent)) === treeId)
    throw new RequestError(
      409,
      'unchanged',
      'nothing would change: the files are there already, byte for byte',
    );
  const commitId = await writeCommit(git, gitDirectory, treeId, parent, upload);
  await moveBranch(git, gitDirectory, upload, commitId);
  await settleDefaultBranch(git, gitDirectory);
  await syncFolders(gitDirectory);
  return commitId;
}

/** @throws RequestError 400 for a file that was not received */
async function checkReceived(git: Git, gitDirectory: string, files: Upload['files']): Promise<void> {
  const blobIds = files.map(({ blobId }) => blobId);
  const types = await typesOf(git, gitDirectory, blobIds);
  const lost = files.find(({ blobId }) => types.get(blobId) !== 'blob');
  if (lost === undefined) return;
  throw new RequestError(400, 'file_not_received', `the file for ${lost.path} is not here: send it again`);
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
    return git.text(gitDirectory, [...LASTING_SETTINGS, 'write-tree'], { environment });
  });
}

function treeOf(git: Git, gitDirectory: string, commitId: string): Promise<string> {
  return git.text(gitDirectory, ['rev-parse', '--verify', `${commitId}^{tree}`]);
}

function writeCommit(
  git: Git,
  gitDirectory: string,
  treeId: string,
  parent: string | null,
  upload: Upload,
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
  return git.text(gitDirectory, [...LASTING_SETTINGS, 'commit-tree', ...parents, treeId], {
    environment,
    input: wholeMessage(upload.message),
  });
}

/** Lets a branch name a new commit, if it is still where it was. @throws RequestError 409 when it is not */
async function moveBranch(git: Git, gitDirectory: string, upload: Upload, commitId: string): Promise<void> {
  const before = upload.seenCommitId ?? NO_COMMIT;
  const reference = `refs/heads/${upload.branch}`;
  try {
    await git.run(gitDirectory, [...LASTING_SETTINGS, 'update-ref', reference, commitId, before]);
  } catch (error) {
    // Whether somebody was faster shows in the branches, whatever git says.
    const chosen = chooseParent(await readBranches(git, gitDirectory), upload);
    throw chosen === null || typeof chosen === 'string' ? error : refusalOf(chosen);
  }
}
