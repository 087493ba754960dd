import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { isWorkbookName } from '../../lib/api/media-types.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { invalid, RequestError, tooLarge } from '../../lib/http/request.ts';
import { checkWorkbook } from '../checker/checker.ts';
import type { Bytes, Upload } from '../http/library.ts';
import { type Git, settingArguments } from '../git/git.ts';
import { type Heads, readBranches, settleDefaultBranch } from '../git/refs.ts';
import type { Registry } from '../git/repositories.ts';

const NO_COMMIT = '0'.repeat(40);
/** Compressing large files takes long: more at the same time would not finish sooner. */
const FILES_WRITTEN_AT_ONCE = 4;
const BLOB_SETTINGS = settingArguments(
  // Workbooks are compressed already; more effort would not make them smaller.
  'core.compression=1',
  // Otherwise each file above our threshold would become a pack of its own.
  'core.bigFileThreshold=512m',
);

/**
 * Makes commits of uploads to the repositories of a registry.
 * @param maxUploadBytes the largest file that is received
 * @param onCommitted called with the id of a repository when an upload has ended; must not throw
 */
export function createUploads(
  git: Git,
  registry: Registry,
  { maxUploadBytes, onCommitted }: { maxUploadBytes: number; onCommitted: (repositoryId: string) => void },
) {
  const places = new Places(FILES_WRITTEN_AT_ONCE);
  return {
    /**
     * Receives the bytes of a file.
     * @returns the id to pass to `commit`; `isAsNamed` is false for a file that has the name of a workbook but is not one
     * @throws RequestError 413 for more than `maxUploadBytes`
     */
    async receive(repositoryId: string, name: string, bytes: Bytes) {
      const gitDirectory = registry.presentDirectory(repositoryId);
      const blobId = await withFolderBeside(gitDirectory, async (folder) => {
        // Git reads the complete file from disk; from a pipe it would hold it in memory.
        const path = join(folder, 'file');
        await writeFile(path, limited(bytes, maxUploadBytes));
        const args = [...BLOB_SETTINGS, 'hash-object', '-w', '--no-filters', '--', path];
        return places.run(() => git.text(gitDirectory, args, { isLong: true }));
      });
      if (!isWorkbookName(name)) return { blobId, isAsNamed: true };
      return { blobId, isAsNamed: (await checkWorkbook(git, gitDirectory, blobId, name)) === 'workbook' };
    },
    /** @throws RequestError 400 if Git refuses it, 409 if the branch has moved or nothing would change */
    async commit(repositoryId: string, upload: Upload) {
      const committed = await commit(git, registry.presentDirectory(repositoryId), upload);
      onCommitted(repositoryId);
      return committed;
    },
  };
}

/** Runs work with a folder next to a bare repository; by its name, the registry removes it after a crash. */
async function withFolderBeside<Result>(
  gitDirectory: string,
  work: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(dirname(gitDirectory), 'incoming-upload-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function* limited(bytes: Bytes, limitBytes: number): Bytes {
  let sizeBytes = 0;
  for await (const chunk of bytes) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) throw tooLarge(`a file may have ${limitBytes} bytes`);
    yield chunk;
  }
}

/** Adds files to the head of a branch; a new branch starts from the default branch. */
async function commit(
  git: Git,
  gitDirectory: string,
  { author, message, files, branch: wanted }: Upload,
): Promise<{ readonly branch: string; readonly commitId: string }> {
  const { defaultBranch, heads } = await readBranches(git, gitDirectory);
  const branch = wanted === '' ? (defaultBranch ?? 'main') : wanted;
  const reference = `refs/heads/${branch}`;
  await git.run(null, ['check-ref-format', reference]).catch(() => {
    throw invalid(`Git does not accept ${JSON.stringify(branch)} as the name of a branch`);
  });
  const head = heads.get(branch) ?? null;
  const parent = head ?? heads.get(defaultBranch ?? '') ?? null;
  const treeId = await writeTree(git, gitDirectory, parent, files);
  if (parent !== null && (await git.text(gitDirectory, ['rev-parse', `${parent}^{tree}`])) === treeId) {
    const nothing = 'nothing would change: the files are there already, byte for byte';
    throw new RequestError(409, 'unchanged', nothing);
  }
  const parents = parent === null ? [] : ['-p', parent];
  const commitId = await git.text(gitDirectory, ['commit-tree', ...parents, treeId], {
    // A key has a person's name, but no address.
    environment: {
      GIT_AUTHOR_NAME: author,
      GIT_AUTHOR_EMAIL: '',
      GIT_COMMITTER_NAME: author,
      GIT_COMMITTER_EMAIL: '',
    },
    input: message.endsWith('\n') ? message : `${message}\n`,
  });
  await git
    .run(gitDirectory, ['update-ref', reference, commitId, head ?? NO_COMMIT])
    .catch(async (error: unknown) => {
      throw reasonOfRefusal(branch, head, (await readBranches(git, gitDirectory)).heads) ?? error;
    });
  await settleDefaultBranch(git, gitDirectory);
  return { branch, commitId };
}

/**
 * Makes the tree of a commit with some files added, in a separate index.
 * @throws RequestError 400 if Git refuses a name, or a file would replace a folder or lie below a file
 */
function writeTree(
  git: Git,
  gitDirectory: string,
  parent: string | null,
  files: Upload['files'],
): Promise<string> {
  return withFolderBeside(gitDirectory, async (folder) => {
    const environment = { GIT_INDEX_FILE: join(folder, 'index') };
    await git.run(gitDirectory, ['read-tree', parent ?? '--empty'], { environment });
    const added = files.flatMap(({ path, blobId }) => ['--cacheinfo', `100644,${blobId},${path}`]);
    await git
      .run(gitDirectory, ['update-index', '--add', ...added], { environment })
      .catch((error: Error) => {
        throw invalid(`these files cannot be committed under these names: ${error.message}`);
      });
    return git.text(gitDirectory, ['write-tree'], { environment });
  });
}

/**
 * Why a branch could not be moved, by the present branches: Git's words contain paths of this machine.
 * @param head of the branch before; null for a new one
 * @returns null if they give no reason
 */
function reasonOfRefusal(branch: string, head: string | null, heads: Heads): RequestError | null {
  if ((heads.get(branch) ?? null) !== head)
    return new RequestError(409, 'moved', `the branch ${branch} was just changed: upload again`);
  const other = [...heads.keys()].find(
    (each) => each.startsWith(`${branch}/`) || branch.startsWith(`${each}/`),
  );
  if (other === undefined) return null;
  const message = `the branch ${branch} cannot exist together with the branch ${other}`;
  return new RequestError(409, 'conflict', message);
}
