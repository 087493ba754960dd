import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** The main file of the program as it is installed, which starts in half the time of its sources. */
export const MAIN = join(ROOT, 'dist/main.js');

/** Everything that the program is made from. Folders are among it: they tell of files that were removed. */
const SOURCES = ['src/**', 'package-lock.json', '.ci/build.ts'];

/** Builds the program, once for a run of tests, where something changed since it was built. @throws Error when it cannot be built */
export function setup(): void {
  const builtAtMs = statSync(MAIN, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isCurrent = globSync(SOURCES, { cwd: ROOT }).every(
    (path) => statSync(join(ROOT, path)).mtimeMs <= builtAtMs,
  );
  if (isCurrent) return;
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, '.ci/build.ts')], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`The program cannot be built:\n${stderr}`);
}
