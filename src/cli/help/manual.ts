import { fileURLToPath } from 'node:url';

import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { escapedLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import { CHAPTERS_FOLDER, readTopics } from '../../manual/chapters.ts';
import { findTopic } from '../../manual/find-topic.ts';

/**
 * A section of the manual, in Markdown.
 * @param commands that `help` explains, too
 * @throws MirrorError `usage.invalid` when no topic has that name
 */
export function showTopic(asked: string, commands: readonly string[]): TerminalText {
  const topics = readTopics();
  if (topics.length === 0) {
    const folder = fileURLToPath(CHAPTERS_FOLDER);
    throw new MirrorError('usage.invalid', `The manual is not there: nothing in ${folder} can be read.`, {
      hint: `It comes with the package. \`${ownCommand('help')}\` lists the commands.`,
    });
  }
  const found = findTopic(topics, asked, commands);
  if ('text' in found) return escapedLines(`${found.text}\n`);
  throw new MirrorError('usage.invalid', `There is neither a command nor a topic ${JSON.stringify(asked)}.`, {
    hint: `${didYouMean(found)}\`help\` lists all of them.`,
  });
}

function didYouMean(near: readonly string[]): string {
  if (near.length === 0) return '';
  return `Did you mean ${near.map((name) => `\`help ${name}\``).join(' or ')}? `;
}
