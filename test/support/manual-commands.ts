import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The blocks of shell commands in a section of the manual, in order.
 * @param heading of the section, without its marks; that of the chapter for the part before the first section
 * @throws Error if there is no such section, or it has no shell block
 */
export function shellBlocks(chapter: string, heading: string): string[] {
  return codeBlocks('sh', chapter, heading);
}

/** As {@link shellBlocks}, in any language. */
export function codeBlocks(language: string, chapter: string, heading: string): string[] {
  const text = readFileSync(join(import.meta.dirname, `../../src/manual/${chapter}.md`), 'utf8');
  const section = text
    .replace(/^# /, '')
    .split(/^## /m)
    .find((each) => each.startsWith(`${heading}\n`));
  const blocks = [
    ...(section ?? '').matchAll(new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^\\1\`\`\`$`, 'gm')),
  ].map(([, indent = '', block = '']) => block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
  if (blocks.length === 0) throw new Error(`nothing in ${language} below "${heading}" of ${chapter}.md`);
  return blocks;
}

/** Commands of the manual without sudo, for root. */
export function asRoot(commands: string): string {
  return commands.replaceAll(/\bsudo (?!-)/g, '');
}
