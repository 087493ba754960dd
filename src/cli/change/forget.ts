import type { Command } from 'commander';

import { noTarget } from '../../app/target-names.ts';
import type { Forgettable } from '../../app/tasks/forget.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { judged, type Outcome, textOf } from '../frame/output.ts';
import { confirmed } from '../frame/terminal.ts';
import { runAll, taskRunners } from '../frame/task-runners.ts';
import { namesOf } from './passes.ts';

/** `forget` */
export async function runForget(command: Command): Promise<Outcome> {
  const { yes }: { yes?: true } = command.opts();
  const runners = await taskRunners(command, false);
  const names = await namesOf(command);
  const parts = await runAll(runners, 'forgettable', { targets: names });
  const targets = parts.flatMap(({ result }) => result);
  if (targets.length === 0) noTarget(names[0] ?? '', []);
  const question = `Forget ${counted(targets.length, 'target')}?`;
  if (!(await confirmed(targets.map(describe), question, yes === true)))
    return judged(false, null, () => 'Nothing was forgotten.');
  for (const { runner, result } of parts)
    if (result.length > 0) await runner.run('forget', { targets: result.map(({ target }) => target) });
  return { data: { targets, isDone: true }, text: () => textOf(targets.map(describeForgotten)) };
}

const REASONS: Readonly<Record<Forgettable['because'], string>> = {
  deselected: 'the settings of this instance no longer select it',
  gone: 'the service no longer has it',
  lost: 'it has no manifest that can be read, and only the inventory names it',
};

function describe({ target, because, treePresent, files, sizeBytes }: Forgettable): string {
  const known =
    because === 'lost' ? 'its tree is there' : `${counted(files, 'file')}, ${roughSize(sizeBytes)}`;
  const amount = `; ${treePresent ? known : 'its tree was removed'}`;
  return `${target}: ${REASONS[because]}${amount}`;
}

function describeForgotten({ target, treePresent }: Forgettable): string {
  return treePresent
    ? `${target}: forgotten; its tree is in history/ (${ownCommand('history list', target)} shows it)`
    : `${target}: forgotten; there was no tree to keep`;
}
