import { readFileSync } from 'node:fs';

/** The complete lines of a file; none if there is no file. */
export function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1);
  } catch {
    return [];
  }
}
