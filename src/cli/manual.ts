import { readFileSync } from 'node:fs';

import { MirrorError } from '../lib/errors/errors.ts';
import { emphasised, say, type TerminalText } from '../lib/text/terminal-text.ts';
import { type Block, parseMarkdown } from '../manual/markdown.ts';
import { renderForTerminal } from '../manual/terminal.ts';
import { findTopic, type Topic, topicsOf } from '../manual/topics.ts';
import { type OutputStream, standardOutput } from '../lib/process/streams.ts';

const README = new URL('../../README.md', import.meta.url);

/** What a terminal has where nobody says. */
const USUAL_COLUMNS = 80;

/** The manual: the README that comes with this package; null where that was taken away. */
export function readManual(): Block[] | null {
  try {
    return parseMarkdown(readFileSync(README, 'utf8'));
  } catch {
    return null;
  }
}

/** The sections of the manual that `help TOPIC` shows. */
export function manualTopics(): readonly Topic[] {
  return topicsOf(readManual() ?? []);
}

/** Shows a section of the manual. @throws MirrorError `usage.invalid` when there is none of that name */
export function showTopic(asked: string, commands: readonly string[]): TerminalText {
  const manual = readManual();
  if (manual === null) {
    throw new MirrorError('usage.invalid', `The manual is not there: ${README.pathname} cannot be read.`, {
      hint: 'It comes with the package. `workbook-mirror help` lists the commands.',
    });
  }
  const found = findTopic(topicsOf(manual), asked, commands);
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
