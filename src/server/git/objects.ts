import type { Git } from './git.ts';

/** Git knows this tree in every repository; its archive is empty. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

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
