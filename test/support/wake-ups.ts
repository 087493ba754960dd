import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, 'wake-ups.c');
/** Other programs for this machine's libraries are kept here, too. */
const COMPILED = join(import.meta.dirname, '../../node_modules/.cache');

/**
 * The variable by which threads of a program wake each other by other calls than those that it makes on files, so that these have the
 * same numbers in each run; null where there is no compiler for C.
 */
export const quietWakeUps = ((): Readonly<Record<string, string>> | null => {
  const library = compiled(SOURCE);
  return library === null ? null : { LD_PRELOAD: library };
})();

/** Compiles a library once; several processes may do so at once. @returns null where there is no compiler */
function compiled(source: string): string | null {
  const digest = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 10);
  const library = join(COMPILED, `workbook-mirror-wake-ups-${digest}.so`);
  if (existsSync(library)) return library;
  mkdirSync(COMPILED, { recursive: true });
  const made = `${library}-${process.pid}`;
  const { status } = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', made, source]);
  if (status !== 0) return null;
  renameSync(made, library);
  return library;
}
