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

function* dataOf(content: Uint8Array | string): Generator<Uint8Array | string> {
  yield `data ${Buffer.byteLength(content)}\n`;
  yield content;
  yield '\n';
}

function* inputOf(plan: CommitPlan, mark: number): Generator<Uint8Array | string> {
  const { branch, from, author, at, message, changes } = plan;
  const who = `${author.name} <${author.email}> ${Math.floor(at.getTime() / 1000)} +0000`;
  yield `commit refs/heads/${branch}\nmark :${mark}\nauthor ${who}\ncommitter ${who}\n`;
  yield* dataOf(message);
  if (from !== undefined) yield `from ${from}\n`;
  for (const { path, content, executable = false } of changes) {
    // Quoted as in JSON: git-fast-import(1) reads the quotes of C, which for names of samples are the same.
    const name = JSON.stringify(path);
    yield content === null ? `D ${name}\n` : `M ${executable ? '100755' : '100644'} inline ${name}\n`;
    if (content !== null) yield* dataOf(content);
  }
  yield `\nget-mark :${mark}\n`;
}

/** Writes commits as the input of `git fast-import`. */
export function writeImport(plans: readonly CommitPlan[]): Buffer {
  const parts = plans.flatMap((plan, index) => [...inputOf(plan, index + 1)]);
  return Buffer.concat([...parts, 'done\n'].map((part) => Buffer.from(part)));
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
  return (await git.text(gitDirectory, ['fast-import', '--quiet', '--done'], { input })).split('\n');
}
