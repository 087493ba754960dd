import { MirrorError } from '../../lib/errors/errors.ts';
import type { Git } from '../git/git.ts';

/** The author of a commit. */
export interface Person {
  readonly name: string;
  readonly email: string;
}

/** One change of a commit. */
export type FileChange =
  | {
      readonly kind: 'write';
      readonly path: string;
      readonly content: Uint8Array | string;
      readonly executable?: boolean;
    }
  | { readonly kind: 'remove'; readonly path: string };

/** A commit to make. */
export interface CommitPlan {
  readonly branch: string;
  /**
   * The parent commit: an id, or a full reference name. If omitted, the previous commit of this branch in the same import,
   * or none for the branch's first commit.
   */
  readonly from?: string;
  readonly author: Person;
  readonly at: Date;
  readonly message: string;
  readonly changes: readonly FileChange[];
}

function writeData(content: Uint8Array | string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from(`data ${bytes.length}\n`), bytes, Buffer.from('\n')]);
}

/** Paths are quoted as in JSON: git-fast-import(1) reads the quotes of C, which for names of samples are the same. */
function writeChange(change: FileChange): Buffer {
  if (change.kind === 'remove') return Buffer.from(`D ${JSON.stringify(change.path)}\n`);
  const mode = change.executable === true ? '100755' : '100644';
  const head = Buffer.from(`M ${mode} inline ${JSON.stringify(change.path)}\n`);
  return Buffer.concat([head, writeData(change.content)]);
}

function writeCommit(plan: CommitPlan, mark: number): Buffer {
  const { author, at } = plan;
  const who = `${author.name} <${author.email}> ${Math.floor(at.getTime() / 1000)} +0000`;
  const head = `commit refs/heads/${plan.branch}\nmark :${mark}\nauthor ${who}\ncommitter ${who}\n`;
  const from = plan.from === undefined ? '' : `from ${plan.from}\n`;
  return Buffer.concat([
    Buffer.from(head),
    writeData(plan.message),
    Buffer.from(from),
    ...plan.changes.map(writeChange),
    Buffer.from(`\nget-mark :${mark}\n`),
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
  const output = await git.text(gitDirectory, ['fast-import', '--quiet', '--done'], {
    input: writeImport(plans),
  });
  const ids = output.split('\n');
  if (ids.length !== plans.length)
    throw new MirrorError('service.failed', 'git did not name every new commit');
  return ids;
}
