import type { Command } from 'commander';

import type { PrunedState } from '../../app/tasks/prune.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { confirmed } from '../change/approve.ts';
import type { Outcome } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';
import { parseSince } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { entriesOf, sumOf } from './history.ts';

/** `history prune` */
export async function runHistoryPrune(command: Command): Promise<Outcome> {
  const { olderThan, yes }: { olderThan: string; yes?: true } = command.opts();
  const [asked] = command.args;
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const named = asked === undefined ? [] : entriesOf(await readHistory(layout), asked, layout.mirror);
  const beforeMs = parseSince(olderThan, Date.now(), '--older-than');
  if (beforeMs > Date.now())
    throw new MirrorError(
      'usage.invalid',
      `--older-than takes a time in the past, not ${JSON.stringify(olderThan)}.`,
    );
  const wish = { target: named[0]?.path ?? null, beforeMs };
  const states = await runOnce(command, 'prunable', wish);
  if (states.length === 0)
    return {
      data: [],
      text: () => say`No state is older than that, except those whose files an older state needs.`,
    };
  if (
    !(await confirmed(
      describe(states),
      say`Delete ${counted(states.length, 'state')} for good?`,
      yes === true,
    ))
  )
    return { data: [], text: () => say`Nothing was deleted.`, exitCode: EXIT_CODES.incomplete };
  const removed = await runOnce(command, 'prune', wish);
  const isAll = removed.length >= states.length;
  const lease = isAll ? '' : `; a lease keeps the others (\`${ownCommand('lease list')}\`)`;
  return {
    data: removed,
    text: () => say`Deleted ${removed.length} of ${counted(states.length, 'state')}${lease}.`,
    exitCode: isAll ? EXIT_CODES.ok : EXIT_CODES.incomplete,
  };
}

/** The most states shown before the question. */
const STATES_SHOWN = 100;

function describe(states: readonly PrunedState[]): TerminalText {
  const lines = states
    .slice(0, STATES_SHOWN)
    .map(
      (each) =>
        `${each.target}: ${each.kind} ${new Date(each.leftAtMs).toISOString()}, ${roughSize(each.storedBytes)}`,
    );
  const more = states.length - lines.length;
  return joinLines([...lines, ...(more > 0 ? [`and ${more} more`] : []), sumOf(states)]);
}
