import { readFileSync } from 'node:fs';

import { PROGRAM_FOLDER } from '../lib/process/program-folder.ts';

const README = new URL('../README.md', PROGRAM_FOLDER);

export const CHAPTERS_FOLDER = new URL('manual/', PROGRAM_FOLDER);

/** The chapters of the manual, in their order; each is a file of that name. */
export const CHAPTERS = [
  'commands',
  'settings',
  'key-rotation',
  'on-disk',
  'backups',
  'hooks',
  'monitoring',
  'troubleshooting',
  'systemd',
  'container',
  'several-machines',
  'samba',
  'how-it-works',
  'reliability',
  'security',
  'performance',
  'server',
  'replica',
  'asking',
] as const;

/** The README's sections that the manual begins with: the one after them tells in short what chapters tell. */
export const FIRST_STEPS = 2;

/** The text of a chapter, or of the README; null where its file was taken away. */
export function chapterText(name: (typeof CHAPTERS)[number] | 'README'): string | null {
  try {
    return readFileSync(name === 'README' ? README : new URL(`${name}.md`, CHAPTERS_FOLDER), 'utf8');
  } catch {
    return null;
  }
}

/** The names of all topics, in the order of the manual. */
export function topicNames(): readonly string[] {
  const first = titlesOf(chapterText('README') ?? '', 2).slice(0, FIRST_STEPS);
  const others = CHAPTERS.flatMap((name) => titlesOf(chapterText(name) ?? '', 1, 2));
  return [...first, ...others].map(topicName);
}

/** The name that a topic is asked for by: its title in small letters, joined with dashes. */
export function topicName(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '');
}

/**
 * The titles of a text of Markdown, without having all of it understood: a list of topics is shown more often than one of them.
 * @param levels of the headings
 */
function titlesOf(markdown: string, ...levels: readonly number[]): string[] {
  const withoutCode = markdown.replaceAll(/^ *(`{3,})[^]*?^ *\1`*$/gm, '');
  return [...withoutCode.matchAll(/^(#+) +(.*?) *$/gm)].flatMap(([, signs = '', title = '']) =>
    levels.includes(signs.length) ? [title] : [],
  );
}
