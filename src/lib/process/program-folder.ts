import { readFileSync } from 'node:fs';

/** The folder of the program's files: `src`, or `dist`, in which a build puts all code side by side. */
export const PROGRAM_FOLDER = new URL(import.meta.url.endsWith('.ts') ? '../../' : './', import.meta.url);

const packageFile = new URL('../package.json', PROGRAM_FOLDER);

/** The version of this package. */
export function packageVersion(): string {
  const content: unknown = JSON.parse(readFileSync(packageFile, 'utf8'));
  const hasVersion = typeof content === 'object' && content !== null && 'version' in content;
  if (!hasVersion || typeof content.version !== 'string') throw new Error('package.json names no version');
  return content.version;
}
