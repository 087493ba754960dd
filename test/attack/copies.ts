import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lstat, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Copies a folder with everything that matters: times, modes, hard links. @param to where nothing is */
export function copyFolder(from: string, to: string): void {
  // Copying to a folder copies into it.
  if (existsSync(to)) throw new Error(`cannot copy: ${to} is there`);
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`cannot copy: ${stderr}`);
}

/** Copies a directory whose program was killed: what its journals know by inodes has others in the copy. */
export async function copyKilled(from: string, to: string): Promise<void> {
  copyFolder(from, to);
  const paths = await readdir(from, { recursive: true });
  const inodes = new Map<number, number>();
  for (const path of paths)
    inodes.set((await lstat(join(from, path))).ino, (await lstat(join(to, path))).ino);
  for (const path of paths.filter((each) => basename(each) === 'journal.json')) {
    const text = await readFile(join(to, path), 'utf8');
    await writeFile(join(to, path), withInodes(text, inodes));
  }
}

/** The text of a journal for a copy; of one that the kill left in pieces, the same pieces. */
function withInodes(text: string, inodes: ReadonlyMap<number, number>): string {
  try {
    const journal: unknown = JSON.parse(text, (key, value: unknown) =>
      key === 'inode' && typeof value === 'number' ? (inodes.get(value) ?? value) : value,
    );
    return JSON.stringify(journal);
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
