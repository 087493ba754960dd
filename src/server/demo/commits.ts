import { MirrorError } from '../../lib/errors/errors.ts';
import type { Git } from '../git/git.ts';

/** One change of a commit. */
export interface FileChange {
  readonly path: string;
  /** Null removes the file. */
  readonly content: Uint8Array | string | null;
  readonly executable?: boolean;
}

/** A commit to make. */
export interface CommitPlan {
  readonly branch: string;
  /**
   * The parent commit: an id, or a full reference name. If omitted, the previous commit of this branch in the same import,
   * or none for the branch's first commit.
   */
  readonly from?: string;
  readonly author: { readonly name: string; readonly email: string };
  readonly at: Date;
  readonly message: string;
  readonly changes: readonly FileChange[];
}

function writeData(content: Uint8Array | string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from(`data ${bytes.length}\n`), bytes, Buffer.from('\n')]);
}

/** Paths are quoted as in JSON: git-fast-import(1) reads the quotes of C, which for names of samples are the same. */
function writeChange({ path, content, executable = false }: FileChange): Buffer {
  if (content === null) return Buffer.from(`D ${JSON.stringify(path)}\n`);
  const head = `M ${executable ? '100755' : '100644'} inline ${JSON.stringify(path)}\n`;
  return Buffer.concat([Buffer.from(head), writeData(content)]);
}

function writeCommit(plan: CommitPlan, mark: number): Buffer {
  const { author, at } = plan;
  const who = `${author.name} <${author.email}> ${Math.floor(at.getTime() / 1000)} +0000`;
  const head = `commit refs/heads/${plan.branch}\nmark :${mark}\nauthor ${who}\ncommitter ${who}\n`;
  const from = Buffer.from(plan.from === undefined ? '' : `from ${plan.from}\n`);
  const end = Buffer.from(`\nget-mark :${mark}\n`);
  return Buffer.concat([
    Buffer.from(head),
    writeData(plan.message),
    from,
    ...plan.changes.map(writeChange),
    end,
  ]);
}

/** Writes commits as the input of `git fast-import`. */
export function writeImport(plans: readonly CommitPlan[]): Buffer {
  return Buffer.concat([...plans.map((plan, index) => writeCommit(plan, index + 1)), Buffer.from('done\n')]);
}

/**
 * Makes commits in a bare repository in one run of git. A branch moves only if its new head
 * contains the old one.
 * @returns the ids of the commits, in order
 * @throws MirrorError `service.failed` when git refuses them, for example because the branch has moved
 */
export async function makeCommits(
  git: Git,
  gitDirectory: string,
  plans: readonly CommitPlan[],
): Promise<string[]> {
  const input = writeImport(plans);
  const ids = (await git.text(gitDirectory, ['fast-import', '--quiet', '--done'], { input })).split('\n');
  if (ids.length !== plans.length)
    throw new MirrorError('service.failed', 'git did not name every new commit');
  return ids;
}
