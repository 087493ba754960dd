import type { Command } from 'commander';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { sync } from './own-pass.ts';
import { progressOf } from './progress.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import { secretsOf } from '../../config/secret.ts';
import { type Outcome, tell } from '../frame/output.ts';
import { daemonsOf, type TaskRunner, worstOf } from '../frame/task-runners.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { askForPasses } from './poll.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `sync` */
export async function runSync(command: Command): Promise<Outcome> {
  const { adopt, allowFailed }: { adopt?: true; allowFailed?: true } = command.opts();
  const daemons = await daemonsOf(command);
  const outcomes = daemons.length > 0 ? await syncBeside(daemons) : [await syncHere(command, adopt === true)];
  const exitCode = worstOf(outcomes.map((outcome) => outcome.exitCode));
  const isAllThatCanBe = outcomes.every((outcome) => outcome.isAllThatCanBe);
  const isAllowed = allowFailed === true && exitCode === EXIT_CODES.incomplete && isAllThatCanBe;
  const [data] = outcomes.map(({ summary, targets }) => ({ summary, targets }));
  return {
    data: outcomes.length === 1 ? data : { passes: outcomes },
    exitCode: isAllowed ? EXIT_CODES.ok : exitCode,
  };
}

/** Has the daemons make the pass. @throws MirrorError that by which one failed as a whole */
async function syncBeside(daemons: readonly TaskRunner[]): Promise<readonly PassOutcome[]> {
  tell(say`A daemon runs here, so it makes the pass: this is \`${ownCommand('poll --wait')}\`.`);
  const passes = await askForPasses(daemons, undefined, true);
  return passes.flatMap(({ outcome }) => {
    const failure = outcome?.failure ?? null;
    if (failure === null) return outcome ?? [];
    const { code, message, hint } = failure;
    throw new MirrorError(code, message, { hint });
  });
}

/** Makes the pass in this process. */
async function syncHere(command: Command, adopt: boolean): Promise<PassOutcome> {
  const { settings } = settingsOf(command, ['service', 'directory']);
  await becomeOwnerOf(settings.directory);
  const { outcome, hooksDue } = await sync(settings, progressOf(secretsOf(settings)), { adopt });
  if (hooksDue > 0) {
    tell(
      say`! hooks.afterPublish did not succeed for ${counted(hooksDue, 'target')}: the next pass of \`run\` or \`sync\` runs it again`,
      'warn',
    );
  }
  return outcome;
}
