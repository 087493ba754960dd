import { lstat, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Leaves a journal in a stage, like a program that was killed before its moves.
 * @param stage absolute
 * @param moves places below the directory or, if they begin with `stage/`, in the stage
 */
export async function leaveJournal(
  directory: string,
  stage: string,
  targets: readonly string[],
  moves: readonly (readonly [from: string, to: string])[],
): Promise<void> {
  await mkdir(stage, { recursive: true });
  const listed = moves.map(async ([from, to]) => ({
    from,
    to,
    inode: (await lstat(from.startsWith('stage/') ? join(stage, from.slice(6)) : join(directory, from))).ino,
  }));
  await writeFile(join(stage, 'journal.json'), JSON.stringify({ targets, moves: await Promise.all(listed) }));
}
