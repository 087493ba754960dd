import type { CommitPlan, FileChange } from '../../src/server/demo/commits.ts';

/** A change that writes a file. */
export function write(path: string, content: string | Uint8Array, executable = false): FileChange {
  return { path, content, executable };
}

/** A commit; without a parent if `more` names none. */
export function plan(
  branch: string,
  changes: readonly FileChange[],
  more: Partial<CommitPlan> = {},
): CommitPlan {
  const author = { name: 'Änne Größe', email: 'anne@example.com' };
  return { branch, author, at: new Date('2026-01-02T03:04:05Z'), message: 'm\n', changes, ...more };
}
