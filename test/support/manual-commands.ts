import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The blocks of shell commands in a section of a chapter of the manual, as people copy them, in their order.
 * @param heading of the section, without its marks; the chapter's own for what stands before the first section
 * @throws Error where there is no such section, or none of its blocks is of the shell
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

/** Commands of the manual as somebody types them who is root already. */
export function asRoot(commands: string): string {
  return commands.replaceAll(/\bsudo (?!-)/g, '');
}
