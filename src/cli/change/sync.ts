import type { Command } from 'commander';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { sync } from './own-pass.ts';
import { progressOf } from './progress.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import { secretsOf } from '../../config/secret.ts';
import { readTargets, withReader } from '../../app/open-reader.ts';
import { isWell, type TargetStatus } from '../../app/target-status.ts';
import { type Outcome, tell, tellEvent } from '../frame/output.ts';
import { daemonsOf, type TaskRunner, worstOf } from '../frame/task-runners.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { askForPasses, namesOf } from './poll.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `sync` */
export async function runSync(command: Command): Promise<Outcome> {
  const { adopt, allowFailed }: { adopt?: true; allowFailed?: true } = command.opts();
  const names = namesOf(command);
  if (names.length > 0 && allowFailed === true)
    throw new MirrorError(
      'usage.invalid',
      '--allow-failed is about all targets: name none, or leave it out.',
    );
  const daemons = await daemonsOf(command);
  const outcomes =
    daemons.length > 0 ? await syncBeside(daemons, names) : [await syncHere(command, adopt === true, names)];
  const worst = worstOf(outcomes.map((outcome) => outcome.exitCode));
  const named = names.length === 0 ? null : await statusOf(command, names);
  const ofNamed = named?.every(isWell) === true ? EXIT_CODES.ok : EXIT_CODES.incomplete;
  const exitCode = named === null || worst > EXIT_CODES.incomplete ? worst : ofNamed;
  const isAllThatCanBe = outcomes.every((outcome) => outcome.isAllThatCanBe);
  const isAllowed = allowFailed === true && exitCode === EXIT_CODES.incomplete && isAllThatCanBe;
  const meant = named && new Set(named.map(({ target }) => target));
  const [data] = outcomes.map(({ summary, targets }) => ({
    summary,
    targets: targets.filter(({ target }) => meant?.has(target) !== false),
  }));
  return {
    data: outcomes.length === 1 ? data : { passes: outcomes },
    exitCode: isAllowed ? EXIT_CODES.ok : exitCode,
  };
}

/** The named targets after the pass: it may have found them. @throws MirrorError `target.unknown` */
async function statusOf(command: Command, names: readonly string[]): Promise<readonly TargetStatus[]> {
  const { settings } = settingsOf(command, ['directory']);
  return (await withReader(settings, tellEvent, (reader) => readTargets(settings, reader, names))).statuses;
}

/** Has the daemons make the pass. @throws MirrorError that by which one failed as a whole */
async function syncBeside(
  daemons: readonly TaskRunner[],
  names: readonly string[],
): Promise<readonly PassOutcome[]> {
  tell(say`A daemon runs here, so it makes the pass: this is \`${ownCommand('poll --wait', ...names)}\`.`);
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
  const { settings } = settingsOf(command, ['service', 'directory']);
  await becomeOwnerOf(settings.directory);
  const { outcome, hooksDue } = await sync(settings, progressOf(secretsOf(settings)), { adopt, names });
  if (hooksDue > 0) {
    tell(
      say`! hooks.afterPublish did not succeed for ${counted(hooksDue, 'target')}: the next pass of \`run\` or \`sync\` runs it again`,
      'warn',
    );
  }
  return outcome;
}
