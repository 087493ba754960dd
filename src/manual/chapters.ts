import { readFileSync } from 'node:fs';

import { PROGRAM_FOLDER } from '../lib/process/program-folder.ts';
import { likely } from '../lib/text/nearest.ts';

const README = new URL('../README.md', PROGRAM_FOLDER);

const CHAPTERS_FOLDER = new URL('manual/', PROGRAM_FOLDER);

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
  'upgrade',
  'move',
  'uninstall',
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
  'changes',
] as const;

/** A section of the manual with everything below its heading. */
export interface Topic {
  /** Its title in small letters, joined with dashes, as in an address on a web page. */
  readonly name: string;
  /** Another name: that of the file of a chapter. Undefined for a part of one. */
  readonly file: string | undefined;
  /** Markdown, from its heading on. */
  readonly text: string;
}

/** All topics, in the order of the manual: the first steps of the README, and the chapters with their sections. */
export function readTopics(): Topic[] {
  const steps = topicsOf(read(README), 2).slice(0, FIRST_STEPS);
  return [...steps, ...CHAPTERS.flatMap((name) => topicsOf(readChapter(name), 1, name))];
}

/** The README's sections that the manual begins with: the one after them tells in short what chapters tell. */
const FIRST_STEPS = 2;

/** The text of a chapter, in Markdown; empty where its file was taken away. */
export function readChapter(name: (typeof CHAPTERS)[number]): string {
  return read(new URL(`${name}.md`, CHAPTERS_FOLDER));
}

/** A file that was taken away holds no topic. */
function read(file: URL): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/**
 * The topics of a text of Markdown: its sections of one level and, in a chapter, of the level below.
 * @param file of a chapter, which names its first section, too
 */
export function topicsOf(markdown: string, level: number, file?: string): Topic[] {
  const lines = markdown.replaceAll(/<!--.*?-->\n?/gs, '').split('\n');
  const headings = headingsIn(lines).filter(
    (each) => each.level === level || (file !== undefined && each.level === level + 1),
  );
  return headings.map((heading, at) => {
    const end = headings.slice(at + 1).find((other) => other.level <= heading.level)?.index;
    const text = lines.slice(heading.index, end).join('\n').trim();
    return { name: topicName(heading.title), file: heading.level === level ? file : undefined, text };
  });
}

interface Heading {
  readonly index: number;
  readonly level: number;
  readonly title: string;
}

/** A line within a block of code is no heading. */
function headingsIn(lines: readonly string[]): Heading[] {
  let isCode = false;
  return lines.flatMap((line, index) => {
    if (/^ *```/.test(line)) isCode = !isCode;
    const [, signs = '', title = ''] = /^(#+) +(.*?) *$/.exec(line) ?? [];
    return isCode || signs === '' ? [] : [{ index, level: signs.length, title }];
  });
}

/** The name of a topic, from its title. */
function topicName(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '');
}

/**
 * Finds a topic by its name or title, or by any words of it, or the beginning of one, that only this topic has.
 * @param others names of other kinds that may have been meant
 * @returns the topic or, without one, the names that may have been meant, the likeliest first
 */
export function findTopic(
  topics: readonly Topic[],
  asked: string,
  others: readonly string[] = [],
): Topic | readonly string[] {
  const name = topicName(asked);
  const exact = topics.find((topic) => topic.name === name || topic.file === name);
  if (exact !== undefined) return exact;
  const withPart = (part: string): Topic[] => topics.filter((topic) => `-${topic.name}-`.includes(part));
  const whole = withPart(`-${name}-`);
  const holding = whole.length === 0 && name !== '' ? withPart(`-${name}`) : whole;
  const [only] = holding;
  if (only !== undefined) return holding.length === 1 ? only : holding.map((topic) => topic.name);
  const names = topics.flatMap((topic) => [topic.name, topic.file ?? []].flat());
  const words = topics.flatMap((topic) => topic.name.split('-').filter((word) => word.length > 3));
  const near = likely(name, [...names, ...others, ...words]);
  return near === undefined ? [] : [near];
}
