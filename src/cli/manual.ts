import { fileURLToPath } from 'node:url';

import { MirrorError } from '../lib/errors/errors.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { emphasised, say, type TerminalText } from '../lib/text/terminal-text.ts';
import { CHAPTERS, CHAPTERS_FOLDER, chapterText, FIRST_STEPS } from '../manual/chapters.ts';
import { type Block, parseMarkdown } from '../manual/markdown.ts';
import { renderForTerminal } from '../manual/terminal.ts';
import { findTopic, type Topic, topicsOf } from '../manual/topics.ts';
import { type OutputStream, standardOutput } from '../lib/process/streams.ts';

/** The width of a terminal that does not tell its own. */
const USUAL_COLUMNS = 80;

/** A chapter, its heading first, or the first steps of the README; null where its file was taken away. */
export function readChapter(name: (typeof CHAPTERS)[number] | 'first-steps'): Block[] | null {
  const text = chapterText(name === 'first-steps' ? 'README' : name);
  if (text === null) return null;
  // A chapter is a section of the whole.
  return name === 'first-steps' ? firstSteps(parseMarkdown(text)) : parseMarkdown(text).map(lowered);
}

function lowered(block: Block): Block {
  return block.kind === 'heading' ? { ...block, level: block.level + 1 } : block;
}

/** The README's sections for beginners: those up to the one on the disk, of which the manual says more. */
function firstSteps(readme: readonly Block[]): Block[] {
  const starts = readme.flatMap((block, index) =>
    block.kind === 'heading' && block.level === 2 ? [index] : [],
  );
  return readme.slice(starts[0], starts[FIRST_STEPS]);
}

/** The sections of the manual that `help TOPIC` shows: first steps, and the chapters with theirs. */
export function manualTopics(): readonly Topic[] {
  return [
    ...topicsOf(readChapter('first-steps') ?? []),
    ...CHAPTERS.flatMap((name) => topicsOf(readChapter(name) ?? [], name)),
  ];
}

/** Shows a section of the manual. @throws MirrorError `usage.invalid` when there is none of that name */
export function showTopic(asked: string, commands: readonly string[]): TerminalText {
  const topics = manualTopics();
  if (topics.length === 0) {
    const folder = fileURLToPath(CHAPTERS_FOLDER);
    throw new MirrorError('usage.invalid', `The manual is not there: nothing in ${folder} can be read.`, {
      hint: `It comes with the package. \`${ownCommand('help')}\` lists the commands.`,
    });
  }
  const found = findTopic(topics, asked, commands);
  if (found.topic !== undefined) return renderForTerminal(found.topic.blocks, terminalOf(standardOutput));
  throw new MirrorError('usage.invalid', `There is neither a command nor a topic ${JSON.stringify(asked)}.`, {
    hint: `${didYouMean(found.near)}\`help\` lists all of them.`,
  });
}

function didYouMean(near: readonly string[]): string {
  if (near.length === 0) return '';
  return `Did you mean ${near.map((name) => `\`help ${name}\``).join(' or ')}? `;
}

function terminalOf(stream: OutputStream): Parameters<typeof renderForTerminal>[1] {
  return {
    // Some terminals that nobody told their size say 0.
    width: (stream.isTerminal() && stream.columns()) || USUAL_COLUMNS,
    emphasise: stream.mayColor()
      ? (text, style) => (style === 'plain' ? say`${text}` : emphasised(text, STYLES[style]))
      : null,
  };
}

const STYLES = { strong: 'bold', emphasis: 'italic', code: 'cyan', heading: 'bold' } as const;
