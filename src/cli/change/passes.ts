import type { Command } from 'commander';

import { describeEvent } from '../../app/messages.ts';
import { chosenTargets, targetPath } from '../../app/target-names.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { loudness, type Outcome, tell, textOf } from '../frame/output.ts';
import {
  daemonsOf,
  exitCodeOfShards,
  runAll,
  type TaskRunner,
  taskRunners,
  warnOfFlags,
  worstOf,
} from '../frame/task-runners.ts';
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
  // The hint repeats the flags.
  settingsOf(command, []);
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
  const names = await namesOf(command);
  const passes = await askForPasses(runners, names, wait);
  const outcomes = passes.flatMap(({ outcome }) => outcome ?? []);
  const ofShards = await exitCodeOfShards(command, runners, unmirrored(command, names, outcomes));
  const exitCode = worstOf([...outcomes.map((outcome) => outcome.exitCode), ofShards]);
  return { data: { passes }, text: () => describePasses(passes), exitCode };
}

/**
 * Makes each of some processes run a pass that also tries waiting targets.
 * @param names of the targets; none for all
 * @param wait whether to wait for a daemon's pass to end; if not, its outcome is null
 */
async function askForPasses(runners: readonly TaskRunner[], names: readonly string[], wait: boolean) {
  const isOwn = runners.some(({ isDaemon }) => !isDaemon);
  const targets = names.length === 0 ? undefined : names;
  const asked = await runAll(runners, 'poll', { wait: wait || isOwn, targets });
  return asked.map(({ runner: { shardIndex }, result: { outcome } }) => ({ shardIndex, outcome }));
}

/** The names if the passes are about no target of these; null without names. */
function unmirrored(command: Command, names: readonly string[], outcomes: readonly PassOutcome[]) {
  if (names.length === 0) return null;
  const { mirror } = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const found = outcomes.flatMap(({ targets }) => targets.map(({ target }) => target));
  const isKnown = outcomes.length > 0 && outcomes.every(({ failure }) => failure === null);
  return !isKnown || chosenTargets(names, mirror, found).length > 0 ? [] : names;
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

/** `sync` */
export async function runSync(command: Command): Promise<Outcome> {
  const { adopt, allowFailed }: { adopt?: true; allowFailed?: true } = command.opts();
  if (command.args.length > 0) {
    // The hint repeats the flags.
    settingsOf(command, []);
    throw new MirrorError('usage.invalid', 'sync is about all targets: name none.', {
      hint: `\`${ownCommand('poll', ...command.args)}\` tries and repairs those that are named.`,
    });
  }
  const daemons = await daemonsOf(command);
  const outcomes =
    daemons.length > 0 ? await syncBeside(command, daemons) : [await syncHere(command, adopt === true)];
  // Each shard has its own records, so each decides about its own targets.
  const isShared = daemons.some(({ shardIndex }) => shardIndex !== null);
  const exitCode = worstOf([
    ...outcomes.map((outcome) => outcome.exitCode),
    isShared ? await exitCodeOfShards(command, daemons, null) : EXIT_CODES.ok,
  ]);
  const isAllThatCanBe = outcomes.every((outcome) => outcome.isAllThatCanBe);
  const isAllowed = allowFailed === true && exitCode === EXIT_CODES.incomplete && isAllThatCanBe;
  // Each of several passes also shows how it ended.
  const [data] = outcomes.map(({ summary, targets }) => ({ summary, targets }));
  return {
    data: outcomes.length === 1 ? data : { passes: outcomes },
    exitCode: isAllowed ? EXIT_CODES.ok : exitCode,
  };
}

/** Asks the daemons for the pass. @throws MirrorError the error of a pass that failed as a whole */
async function syncBeside(command: Command, daemons: readonly TaskRunner[]): Promise<readonly PassOutcome[]> {
  if (loudness() !== 'quiet')
    tell(say`A daemon runs here, so it makes the pass: this is \`${ownCommand('poll --wait')}\`.`);
  warnOfFlags(command);
  const passes = await askForPasses(daemons, [], true);
  return passes.flatMap(({ outcome }) => {
    const failure = outcome?.failure ?? null;
    if (failure === null) return outcome ?? [];
    const { code, message, hint } = failure;
    throw new MirrorError(code, message, { hint });
  });
}

/** Makes the pass in this process. */
async function syncHere(command: Command, adopt: boolean): Promise<PassOutcome> {
  const { sync } = await import('./own-place.ts');
  const { settings } = settingsOf(command, ['service', 'directory']);
  await becomeOwnerOf(settings.directory);
  return sync(settings, { adopt });
}
