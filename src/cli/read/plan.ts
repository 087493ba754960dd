import type { Command } from 'commander';

import { unmatchedSentence } from '../../app/messages.ts';
import { ofTargets } from '../../app/target-names.ts';
import type { PlannedTarget } from '../../app/tasks/plan.ts';
import { counted, partsOf, roughSize } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { type Lines, type Outcome, table, tell, textOf } from '../frame/output.ts';
import { runAll, taskRunners } from '../frame/task-runners.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `plan` */
export async function runPlan(command: Command): Promise<Outcome> {
  const results = await runAll(await taskRunners(command, true), 'plan', {});
  const reports = results.map(({ result }) => result);
  for (const problem of new Set(reports.flatMap(({ problems }) => problems))) tell(say`! ${problem}`, 'warn');
  for (const each of reports.flatMap(({ unmatched }) => unmatched))
    tell(say`! ${unmatchedSentence(each)}`, 'warn');
  const all = reports.flatMap((report) => report.targets);
  const { mirror } = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const targets = ofTargets(all, command.args, mirror);
  const nothing = 'Nothing is selected: there is no target.';
  return { data: targets, text: () => (targets.length === 0 ? nothing : describePlan(targets)) };
}

/** Describes a plan to a person. */
export function describePlan(targets: readonly PlannedTarget[]): TerminalText {
  const rows = targets.map((each) => [
    shownAction(each) + (each.movedFrom === null ? '' : ' (moves)'),
    each.deselection === null ? each.reason : `${each.reason}, deselected`,
    each.files === null ? '?' : String(each.files),
    each.lastArchiveBytes === null ? '?' : roughSize(each.lastArchiveBytes),
    each.target,
  ]);
  return textOf(
    table(['ACTION', 'REASON', 'FILES', 'LAST ARCHIVE', 'TARGET'], rows),
    '',
    describePulls(targets.filter(({ action }) => action === 'pull')),
    describeHolds(targets),
  );
}

/** The action as the pass will count it. */
function shownAction({ action, reason, isHeld }: PlannedTarget): string {
  if (reason === 'not-selected') return 'leave';
  return action === 'keep' && isHeld ? 'hold' : action;
}

function describePulls(pulls: readonly PlannedTarget[]): string {
  if (pulls.length === 0) return 'Nothing would be pulled.';
  const sizes = pulls.flatMap(({ lastArchiveBytes }) => lastArchiveBytes ?? []);
  const sumBytes = sizes.reduce((sum, each) => sum + each, 0);
  const parts = partsOf(
    `${counted(pulls.length, 'target')} would be pulled`,
    sizes.length > 0 && `${roughSize(sumBytes)} by the size of the last archives`,
    sizes.length < pulls.length && `${pulls.length - sizes.length} of unknown size`,
  );
  const isOpen = pulls.some(({ reason }) => reason === 'confirm-gone');
  return `${parts.join(', ')}.${isOpen ? ' Only the contents show whether a branch is gone.' : ''}`;
}

/** Describes what the pass would report as held. */
function describeHolds(targets: readonly PlannedTarget[]): Lines {
  const held = targets.filter(({ isHeld }) => isHeld);
  const deselected = held.filter(({ deselection }) => deselection !== null).length;
  return [
    held.length > 0 && `${counted(held.length, 'target')} would be held.`,
    deselected > 0 &&
      `The settings no longer select ${deselected} of them, too many at once: they are mirrored as before until \`${ownCommand('approve')} TARGET\` lets them go.`,
  ];
}
