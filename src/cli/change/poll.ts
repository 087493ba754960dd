import type { Command } from 'commander';

import { describeEvent } from '../../app/messages.ts';
import { targetPath } from '../../app/target-names.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { type Outcome, textOf } from '../frame/output.ts';
import { type TaskRunner, taskRunners, worstOf } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `poll` */
export async function runPoll(command: Command): Promise<Outcome> {
  const { wait }: { wait?: true } = command.opts();
  return pollNow(command, wait === true);
}

/** `retry` */
export async function runRetry(command: Command): Promise<Outcome> {
  const { all }: { all?: true } = command.opts();
  if (command.args.length > 0 || all === true) return pollNow(command, false);
  throw new MirrorError('usage.invalid', 'retry needs a target, or --all.', {
    hint: `\`${ownCommand('status')}\` lists what waits.`,
  });
}

/** The targets that a command names; paths on disk become paths below `mirror/`, because a daemon works in another folder. */
export async function namesOf(command: Command): Promise<readonly string[]> {
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const known = command.args.length === 0 ? [] : await manifestPaths(layout);
  return command.args.map((name) => targetPath(name, layout.mirror, known));
}

async function pollNow(command: Command, wait: boolean): Promise<Outcome> {
  const runners = await taskRunners(command, false);
  const passes = await askForPasses(runners, await namesOf(command), wait);
  const text = describePasses(passes);
  return {
    data: { passes },
    ...(text === null ? {} : { text: () => text }),
    exitCode: worstOf(passes.map(({ outcome }) => outcome?.exitCode ?? EXIT_CODES.ok)),
  };
}

/**
 * Makes each of some processes run a pass that also tries waiting targets.
 * @param names of the targets; none for all
 * @param wait whether to wait for a daemon's pass to end; if not, its outcome is null
 */
export async function askForPasses(runners: readonly TaskRunner[], names: readonly string[], wait: boolean) {
  const targets = names.length === 0 ? undefined : names;
  const asked = await Promise.allSettled(
    runners.map(async (runner) => ({
      shardIndex: runner.shardIndex,
      ...(await runner.run('poll', { wait: wait || !runner.isDaemon, targets })),
    })),
  );
  return asked.map((each) => {
    if (each.status === 'rejected') throw each.reason;
    return each.value;
  });
}

/** Describes passes to a person; null if there is nothing to add to the progress display, which shows the summary of a single pass. */
function describePasses(passes: Awaited<ReturnType<typeof askForPasses>>): TerminalText | null {
  const news = passes.filter(
    ({ shardIndex, outcome }) => shardIndex !== null || (outcome?.summary ?? null) === null,
  );
  const lines = news.map(({ shardIndex, outcome }) => {
    const who = shardIndex === null ? '' : `${shardIndex}: `;
    return outcome === null ? say`${who}The daemon makes a pass.` : say`${who}${describeOutcome(outcome)}`;
  });
  const isIncomplete = passes.some(({ outcome }) => outcome?.exitCode === EXIT_CODES.incomplete);
  if (isIncomplete) lines.push(say`\`${ownCommand('status')}\` shows what is not done, and why.`);
  return lines.length === 0 ? null : textOf(lines);
}

function describeOutcome({ summary, failure }: PassOutcome): TerminalText {
  if (summary !== null) return describeEvent({ name: 'pass.finished', ...summary });
  return describeEvent({ name: 'pass.failed', trigger: 'poll', durationMs: 0, ...failure });
}
