import type { Command } from 'commander';

import type { Forgettable } from '../../app/tasks/forget.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { Outcome } from '../frame/output.ts';
import { confirmed } from '../frame/terminal.ts';
import { runAll, taskRunners } from '../frame/task-runners.ts';
import { namesOf } from './poll.ts';

/** `forget` */
export async function runForget(command: Command): Promise<Outcome> {
  const { yes }: { yes?: true } = command.opts();
  const runners = await taskRunners(command, false);
  const names = await namesOf(command);
  const parts = await runAll(runners, 'forgettable', { targets: names });
  const targets = parts.flatMap(({ result }) => result);
  if (targets.length === 0)
    throw new MirrorError('target.unknown', `No target is named ${JSON.stringify(names[0])}.`, {
      hint: `\`${ownCommand('status')}\` lists all targets.`,
    });
  const what = joinLines(targets.map(describe));
  const question = say`Forget ${counted(targets.length, 'target')}?`;
  if (!(await confirmed(what, question, yes === true)))
    return { data: null, text: () => say`Nothing was forgotten.`, exitCode: EXIT_CODES.incomplete };
  for (const { runner, result } of parts)
    if (result.length > 0) await runner.run('forget', { targets: result.map(({ target }) => target) });
  return { data: { targets, isDone: true }, text: () => describeForgotten(targets) };
}

const REASONS: Readonly<Record<Forgettable['because'], string>> = {
  deselected: 'the settings of this instance no longer select it',
  gone: 'the service no longer has it',
  lost: 'its tree and its manifest are gone, and only the inventory names it',
};

function describe({ target, because, treePresent, files, sizeBytes }: Forgettable): string {
  const amount =
    because === 'lost'
      ? ''
      : treePresent
        ? `; ${counted(files, 'file')}, ${roughSize(sizeBytes)}`
        : '; its tree was removed';
  return `${target}: ${REASONS[because]}${amount}`;
}

function describeForgotten(targets: readonly Forgettable[]): TerminalText {
  return joinLines(
    targets.map(({ target, treePresent }) =>
      treePresent
        ? `${target}: forgotten; its tree is in history/ (${ownCommand('history list', target)} shows it)`
        : `${target}: forgotten; there was no tree to keep`,
    ),
  );
}
