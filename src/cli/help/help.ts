import type { Command } from 'commander';

import { packageVersion } from '../../lib/process/version.ts';
import { escapedLines } from '../../lib/text/terminal-text.ts';
import { addAllPendingFlags, addPendingFlags } from '../frame/declare.ts';
import { programOf, showWhole } from './help-screen.ts';
import type { Outcome } from '../frame/output.ts';

/** `help` */
export async function runHelp(command: Command): Promise<Outcome> {
  const { man }: { man?: true } = command.opts();
  const program = programOf(command);
  if (man === true) {
    await addAllPendingFlags(program);
    const { manualPage } = await import('./manual-page.ts');
    return { text: () => escapedLines(manualPage(program, packageVersion())) };
  }
  const explained = findCommand(program, command.args);
  if (explained === undefined) {
    const { showTopic } = await import('./manual.ts');
    const names = program.commands.map((each) => each.name());
    return { text: () => showTopic(command.args.join(' '), names) };
  }
  await addPendingFlags(explained);
  if (explained === program) showWhole(program);
  explained.outputHelp();
  return {};
}

/** The command that some words lead to; the program itself without any. */
function findCommand(program: Command, names: readonly string[]): Command | undefined {
  let command: Command | undefined = program;
  for (const name of names) command = command?.commands.find((each) => each.name() === name);
  return command;
}
