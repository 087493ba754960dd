import type { Git } from '../git/git.ts';

/** An entry of a commit's tree that is no folder. */
export interface TreeEntry {
  readonly path: string;
  /** `file`, or what a mirror leaves out: symbolic links and submodules. */
  readonly kind: 'file' | 'link' | 'submodule';
  /** The id of the content, which follows from its bytes. */
  readonly id: string;
}

const LINK_MODE = '120000';
const SUBMODULE_MODE = '160000';

function kindOf(mode: string): TreeEntry['kind'] {
  if (mode === LINK_MODE) return 'link';
  return mode === SUBMODULE_MODE ? 'submodule' : 'file';
}

/** Lists everything in a commit, with whole paths in Git's order. */
export async function listTree(git: Git, gitDirectory: string, commitId: string): Promise<TreeEntry[]> {
  const entries: TreeEntry[] = [];
  await git.tokens(gitDirectory, ['ls-tree', '-r', '-z', '--full-tree', commitId], (token) => {
    const tab = token.indexOf('\t');
    const [mode = '', , id = ''] = token.slice(0, tab).split(' ');
    entries.push({ path: token.slice(tab + 1), kind: kindOf(mode), id });
  });
  return entries;
}
