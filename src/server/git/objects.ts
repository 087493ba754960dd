import { MirrorError } from '../../lib/errors/errors.ts';
import type { FileBytes } from '../checker/checker.ts';
import type { Git } from './git.ts';

/** The object at a path in a commit. */
export interface NamedObject {
  /** `commit` is a submodule: it has no content in this repository. */
  readonly type: 'blob' | 'tree' | 'commit';
  readonly id: string;
  /** Zero for anything but a blob. */
  readonly sizeBytes: number;
}

/** Author of the commits that represent a folder; they belong to no branch. */
const FOLDER_AUTHOR = { name: 'workbook-mirror', email: 'workbook-mirror@localhost' } as const;

/**
 * Reads one record of `ls-tree -l -z`: mode, type, id, padded size or a dash, a tab and the path.
 * @returns null for no record at all
 * @throws MirrorError `service.failed` for anything else, for example the size `BAD` of a file that git cannot read
 */
export function parseTreeRecord(record: string): NamedObject | null {
  if (record === '') return null;
  const match = /^\d{6} (blob|tree|commit) ([0-9a-f]+) +(\d+|-)\t/.exec(record);
  const [, type, id, size] = match ?? [];
  if (id === undefined || (type !== 'blob' && type !== 'tree' && type !== 'commit')) {
    throw new MirrorError('service.failed', `git cannot read what the tree names: ${record}`);
  }
  return { type, id, sizeBytes: size === '-' ? 0 : Number(size) };
}

/**
 * Finds the object at a path in a commit.
 * @param commitId in full
 * @param path without a slash at either end
 * @returns null if there is none
 */
export async function findObject(
  git: Git,
  gitDirectory: string,
  commitId: string,
  path: string,
): Promise<NamedObject | null> {
  // Git would normalize such a path and then find something else, or fail.
  const strange = path.split('/').some((segment) => segment === '' || segment === '.' || segment === '..');
  if (strange || path.includes('\0')) return null;
  const output = await git.run(gitDirectory, ['ls-tree', '-l', '-z', '--full-tree', commitId, '--', path]);
  return parseTreeRecord(output.toString('utf8'));
}

/**
 * Gives a commit that holds just a folder, with the time of the commit it comes from. Archives of a bare tree get the
 * current time, so no two are alike; archives of a commit are the same each time.
 * @param treeId the folder
 * @returns the commit's id, which depends only on the parameters
 */
export async function commitOfFolder(
  git: Git,
  gitDirectory: string,
  commitId: string,
  treeId: string,
): Promise<string> {
  const format = ['show', '--no-patch', '--format=%ct', commitId, '--'];
  const seconds = await git.text(gitDirectory, format);
  return git.text(gitDirectory, ['commit-tree', '-m', 'folder', treeId], {
    environment: {
      GIT_AUTHOR_NAME: FOLDER_AUTHOR.name,
      GIT_AUTHOR_EMAIL: FOLDER_AUTHOR.email,
      GIT_AUTHOR_DATE: `@${seconds} +0000`,
      GIT_COMMITTER_NAME: FOLDER_AUTHOR.name,
      GIT_COMMITTER_EMAIL: FOLDER_AUTHOR.email,
      GIT_COMMITTER_DATE: `@${seconds} +0000`,
    },
  });
}

/** The modes of a regular file in Git; a link or a submodule has others, and is never a workbook. */
export const FILE_MODE = /^100/;

/** A regular file of a commit; the id of its bytes is computed from them. */
interface TreeFile {
  readonly path: string;
  readonly id: string;
}

/** Lists the regular files of a commit, with whole paths in Git's order. */
export async function listFiles(git: Git, gitDirectory: string, commitId: string): Promise<TreeFile[]> {
  const files: TreeFile[] = [];
  await git.tokens(gitDirectory, ['ls-tree', '-r', '-z', '--full-tree', commitId], (token) => {
    const tab = token.indexOf('\t');
    const [mode = '', , id = ''] = token.slice(0, tab).split(' ');
    if (FILE_MODE.test(mode)) files.push({ path: token.slice(tab + 1), id });
  });
  return files;
}

/** A file of at most this size is read whole. */
const WHOLE_BYTES = 64 * 1024 ** 2;
/** Bytes that are read from the end of a larger file: enough for the directory of a zip of some ten thousand parts. */
const END_BYTES = 4 * 1024 ** 2;

/**
 * Reads a file, whole or by its ends.
 * @throws MirrorError `service.failed` when git cannot give it, or is ended by the signal
 */
export async function readBlob(
  git: Git,
  gitDirectory: string,
  blobId: string,
  signal: AbortSignal,
): Promise<FileBytes> {
  const first: Uint8Array[] = [];
  const last: Uint8Array[] = [];
  let sizeBytes = 0;
  let lastBytes = 0;
  for await (const chunk of git.output(gitDirectory, ['cat-file', 'blob', blobId], { signal })) {
    if (sizeBytes < WHOLE_BYTES) first.push(chunk);
    last.push(chunk);
    sizeBytes += chunk.length;
    lastBytes += chunk.length;
    while (lastBytes - (last[0]?.length ?? 0) >= END_BYTES) lastBytes -= last.shift()?.length ?? 0;
  }
  const beginning = Buffer.concat(first);
  const isWhole = beginning.length === sizeBytes;
  return { sizeBytes, first: beginning, last: isWhole ? Buffer.alloc(0) : Buffer.concat(last) };
}
