import { existsSync } from 'node:fs';

import type { Command } from 'commander';

import { readTargets, withReader } from '../../app/open-reader.ts';
import { chosenTargets, findTargets } from '../../app/target-names.ts';
import { isWell } from '../../app/target-status.ts';
import { pathsOf } from '../../app/tasks/poll.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { type Outcome, tell, tellEvent } from '../frame/output.ts';
import { daemonsOf, type TaskRunner, warnOfFlags, worstOf } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { askForPasses, namesOf } from './poll.ts';

/** `sync` */
export async function runSync(command: Command): Promise<Outcome> {
  const { adopt, allowFailed }: { adopt?: true; allowFailed?: true } = command.opts();
  const problem = '--allow-failed is about all targets: name none, or leave it out.';
  if (command.args.length > 0 && allowFailed === true) throw new MirrorError('usage.invalid', problem);
  const daemons = await daemonsOf(command);
  const names = await namesOf(command);
  const outcomes =
    daemons.length > 0
      ? await syncBeside(command, daemons, names)
      : [await syncHere(command, adopt === true, names)];
  const worst = worstOf(outcomes.map((outcome) => outcome.exitCode));
  const { settings } = settingsOf(command, ['directory']);
  // Each share has its own records: it judges its targets itself.
  const isShared = daemons.some(({ shardIndex }) => shardIndex !== null);
  const isOfNamed = names.length > 0 && !isShared && worst <= EXIT_CODES.incomplete;
  const exitCode = isOfNamed ? await exitCodeOfNamed(settings, names, outcomes) : worst;
  const isAllThatCanBe = outcomes.every((outcome) => outcome.isAllThatCanBe);
  const isAllowed = allowFailed === true && exitCode === EXIT_CODES.incomplete && isAllThatCanBe;
  const { mirror } = layoutOf(settings.directory);
  const passes = outcomes.map(({ summary, targets }) => {
    const chosen = new Set(chosenTargets(names, mirror, targets.map(targetOf)));
    return {
      summary,
      targets: targets.filter(({ target }) => names.length === 0 || chosen.has(target)),
    };
  });
  return {
    data: passes.length === 1 ? passes[0] : { passes },
    exitCode: isAllowed ? EXIT_CODES.ok : exitCode,
  };
}

const targetOf = ({ target }: { readonly target: string }): string => target;

/**
 * The exit code for named targets after a pass, which may have found or retired them.
 * @throws MirrorError `target.unknown`
 */
function exitCodeOfNamed(
  settings: SettingsFor<'directory'>,
  names: readonly string[],
  outcomes: readonly PassOutcome[],
): Promise<ExitCode> {
  return withReader(settings, tellEvent, async (reader) => {
    const { statuses } = await readTargets(settings, reader);
    const retired = outcomes.flatMap(({ targets }) => targets).filter(({ outcome }) => outcome === 'retired');
    const known = new Set([...statuses, ...retired].map(targetOf));
    const chosen = new Set(findTargets(names, reader.store.layout.mirror, known));
    const isWhole = statuses.filter(({ target }) => chosen.has(target)).every(isWell);
    return isWhole ? EXIT_CODES.ok : EXIT_CODES.incomplete;
  });
}

/** Asks the daemons for the pass. @throws MirrorError the error of a pass that failed as a whole */
async function syncBeside(
  command: Command,
  daemons: readonly TaskRunner[],
  names: readonly string[],
): Promise<readonly PassOutcome[]> {
  tell(say`A daemon runs here, so it makes the pass: this is \`${ownCommand('poll --wait', ...names)}\`.`);
  warnOfFlags(command);
  const passes = await askForPasses(daemons, names, true);
  return passes.flatMap(({ outcome }) => {
    const failure = outcome?.failure ?? null;
    if (failure === null) return outcome ?? [];
    const { code, message, hint } = failure;
    throw new MirrorError(code, message, { hint });
  });
}

/** Makes the pass in this process. */
async function syncHere(command: Command, adopt: boolean, names: readonly string[]): Promise<PassOutcome> {
  const { ownSettings, sync } = await import('./own-place.ts');
  const { settings } = settingsOf(command, ['service', 'directory']);
  await becomeOwnerOf(settings.directory);
  // Check names before the pass: otherwise a wrong one would be recorded as a failed pass. Before a first pass, the targets are unknown.
  if (names.length > 0 && existsSync(layoutOf(settings.directory).targetList))
    await pathsOf(names, { settings: ownSettings(command), emit: () => {} });
  return sync(settings, { adopt, names });
}
