import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { type CommandProgress, progressOf } from './progress.ts';
import { tellShare } from '../../daemon/status/share-report.ts';
import { runPass } from '../../mirror/pass/pass.ts';
import type { Retries } from '../../mirror/plan/actions.ts';
import { openMirror } from '../../app/open-mirror.ts';
import { type PassOutcome, passOutcome } from '../../app/tasks/task.ts';
import { MirrorStatusReader } from '../../daemon/status/mirror-status.ts';
import { isReady } from '../../daemon/status/status-service.ts';
import { Hooks, HOOKS_CLOSE_MS } from '../../daemon/hooks/hooks.ts';
import { secretsOf } from '../../config/secret.ts';
import { type Outcome, tell } from '../frame/output.ts';
import { daemonsOf, type TaskRunner, worstOf } from '../frame/task-runners.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { askForPasses } from './poll.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import type { Trigger } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';

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
  tell(say`The daemon makes the pass, as \`${ownCommand('poll --wait')}\` has it.`);
  const passes = await askForPasses(daemons, undefined, true);
  return passes.flatMap(({ outcome }) => {
    const failure = outcome?.failure ?? null;
    if (failure === null) return outcome ?? [];
    const { code, message, hint } = failure;
    throw new MirrorError(code, message, hint === null ? {} : { hint });
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

/** One pass, then the end. @throws MirrorError when the pass as a whole fails */
export async function sync(
  settings: SettingsFor<'service' | 'directory'>,
  progress: CommandProgress,
  {
    trigger = 'command',
    adopt = false,
    retries = 'all',
  }: { readonly trigger?: Trigger; readonly adopt?: boolean; readonly retries?: Retries } = {},
): Promise<{ outcome: PassOutcome; hooksDue: number }> {
  const sinks = [progress.sink];
  const emitAll: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emitAll, { adopt, monitor: progress.monitor }).catch(
    (error: unknown) => {
      progress.close();
      throw error;
    },
  );
  const status = new MirrorStatusReader(() => settings, mirror);
  const hooks = new Hooks(() => settings, mirror, emitAll, { readMirror: status.read });
  sinks.push(status.sink, hooks.sink);
  const { signal, stopListening } = abortOnSignal();
  signal.addEventListener('abort', () => void hooks.close(0));
  try {
    const report = await runPass(mirror.context, mirror.policy, trigger, signal, retries).catch(
      async (error: unknown) => {
        if (!signal.aborted) await tellShare(settings, mirror, error);
        throw error;
      },
    );
    await tellShare(settings, mirror, null);
    await mirror.rememberInstallation();
    const hooksDue = await hooks.settled();
    const isDone = hooksDue === 0 && (await isReady({ readMirror: status.read }));
    return { outcome: passOutcome(report, isDone), hooksDue };
  } finally {
    await hooks.close(HOOKS_CLOSE_MS);
    stopListening();
    progress.close();
    await mirror.close();
  }
}
