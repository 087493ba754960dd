import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Command } from 'commander';
import { expect, it } from 'vitest';

import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { createProgram } from '../../../../src/cli/frame/program.ts';

const SOURCE = join(import.meta.dirname, '../../../../src');

/** Every command that the program suggests, as in its source: `verify --repair`. */
function namedCommands(): string[] {
  const found = globSync('**/*.ts', { cwd: SOURCE }).flatMap((file) =>
    [
      ...readFileSync(join(SOURCE, file), 'utf8').matchAll(/ownCommand\(\s*(?<quote>['"`])(.+?)\k<quote>/gs),
    ].map(([, , command = '']) => command),
  );
  return [...new Set(found)].filter((command) => !command.startsWith('$')).sort();
}

/** The words of a command line that the program does not know, and a flag at its end whose value would be another flag. */
function unknownParts(program: Command, words: readonly string[]): string[] {
  let command = program;
  const unknown: string[] = [];
  for (const word of words) {
    const child = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (child !== undefined) command = child;
    else if (word.startsWith('--')) {
      const option = command.options.find(({ long }) => long === word);
      if (option === undefined || (option.required && word === words.at(-1))) unknown.push(word);
    } else if (command.registeredArguments.length === 0) unknown.push(word);
  }
  return unknown;
}

it('each hint names a command and flags that exist', async () => {
  const program = createProgram();
  await addAllPendingFlags(program);
  const commands = namedCommands();
  expect(commands).toEqual(expect.arrayContaining(['poll', 'verify --repair', 'diff --upstream', 'status']));
  for (const command of commands) expect(unknownParts(program, command.split(' ')), command).toEqual([]);
});
