import type { FileBytes } from '../checker/checker.ts';
import type { Git } from './git.ts';

/** The modes of a regular file in Git; a link or a submodule has others, and is never a workbook. */
export const FILE_MODE = /^100/;

/** Lists the regular files of a commit, with whole paths in Git's order, and the ids of their bytes. */
export async function listFiles(git: Git, gitDirectory: string, commitId: string) {
  const files: Array<{ readonly path: string; readonly id: string }> = [];
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
