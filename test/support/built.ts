import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** The main file of the built program, which starts in half the time of its sources. */
export const MAIN = join(ROOT, 'dist/main.js');

/** The sources of the program. Folders are included: their times show removed files. */
const SOURCES = ['src/**', 'package-lock.json', '.ci/build.ts'];

/** Builds the program once for a run of tests, if its sources have changed. @throws Error if the build fails */
export function setup(): void {
  const builtAtMs = statSync(MAIN, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isCurrent = globSync(SOURCES, { cwd: ROOT }).every(
    (path) => statSync(join(ROOT, path)).mtimeMs <= builtAtMs,
  );
  if (!isCurrent) build();
}

/** Builds the program. @param folder in place of `dist` @throws Error if the build fails */
export function build(...folder: readonly [] | readonly [string]): void {
  const args = [join(ROOT, '.ci/build.ts'), ...folder];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`The program cannot be built:\n${stderr}`);
}
