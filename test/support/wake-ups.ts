import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, 'wake-ups.c');
/** The folder of compiled libraries. */
const COMPILED = join(import.meta.dirname, '../../node_modules/.cache');

/**
 * The variable that lets threads wake each other without calls that are also used for files, so that calls on files have the same numbers in
 * each run; null without a C compiler.
 */
export const quietWakeUps = ((): Readonly<Record<string, string>> | null => {
  const library = compiled(SOURCE);
  return library === null ? null : { LD_PRELOAD: library };
})();

/** Compiles a library once, even from several processes. @returns null without a compiler */
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
