import type { Command } from 'commander';

import { askDaemon } from '../../app/control.ts';
import type { PassOutcome } from '../../app/tasks/task.ts';
import { describeEvent } from '../../app/messages.ts';
import { refuseMissing, statusPolicyOf } from '../../app/open-reader.ts';
import { statusOfTargets, type TargetStatus } from '../../app/target-status.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { otherInstances } from '../../mirror/store/shards.ts';
import { type Outcome, printOutcome, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { progressOf, sync, syncData } from './sync.ts';
import { targetNamed } from '../../app/target-names.ts';
import { withReader } from '../../app/open-reader.ts';

/** `poll` */
export async function runPoll(command: Command): Promise<Outcome> {
  const { wait }: { wait?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  const names = command.args;
  const targets =
    names.length === 0
      ? null
      : await withStatuses(settings, (statuses, mirror) => {
          const known = statuses.map(({ target }) => target);
          return names.map((name) => targetNamed(name, mirror, known));
        });
  return pollNow(command, targets, wait === true);
}

/**
 * Has a pass made that tries targets whatever they wait for: by the daemons that work in the directory or, where none does, here.
 * @param targets as below `mirror/`; null for all
 * @param wait whether to wait for a daemon's pass to end
 */
export async function pollNow(
  command: Command,
  targets: readonly string[] | null,
  wait: boolean,
): Promise<Outcome> {
  const passes = await askDaemons(settingsOf(command, ['directory']).settings, targets, wait);
  if (passes.length === 0) return passHere(command, targets);
  return {
    data: { passes },
    text: () => describePasses(passes),
    exitCode: passes.reduce<ExitCode>((worst, { outcome }) => worse(worst, outcome), 0),
  };
}

/** Makes the pass in this process, as no daemon works in the directory. */
async function passHere(command: Command, targets: readonly string[] | null): Promise<Outcome> {
  const { settings } = settingsOf(command, ['service', 'directory']);
  const how = targets === null ? {} : { trigger: 'retry' as const, retries: new Set(targets) };
  const { report, exitCode } = await sync(settings, progressOf(settings), how);
  printOutcome(command, { data: syncData(report) });
  return { exitCode };
}

/** Does something with how all targets are, and with the path of the folder of trees. @throws MirrorError `directory.unusable`, `disk.*`, `state.unavailable` */
export function withStatuses<T>(
  settings: SettingsFor<'directory'>,
  use: (statuses: readonly TargetStatus[], mirrorFolder: string) => T,
): Promise<T> {
  return withReader(settings, tellEvent, async ({ store, state }) => {
    const { published } = await store.inventory.read();
    const statuses = statusOfTargets(published, await state.records(), statusPolicyOf(settings), Date.now());
    return use(statuses, store.layout.mirror);
  });
}

/** A pass that was asked for. */
export interface AskedPass {
  /** The index of the instance; null where one has all. */
  readonly shardIndex: number | null;
  /** How it ended; null where that was not waited for. */
  readonly outcome: PassOutcome | null;
}

/**
 * Asks the daemon for a pass, or all that share the directory where the settings name no share.
 * @returns the passes of those daemons that listen
 * @throws MirrorError `daemon.absent` where one cannot be asked, `disk.*`, `pass.abandoned` on a signal
 */
async function askDaemons(
  { directory, shard }: SettingsFor<'directory'>,
  targets: readonly string[] | null,
  wait: boolean,
): Promise<AskedPass[]> {
  const whole = layoutOf(directory);
  const layouts =
    shard === undefined ? [whole, ...(await otherInstances(whole))] : [layoutOf(directory, shard)];
  const { signal, stopListening } = abortOnSignal();
  const wish = { wait, ...(targets === null ? {} : { targets: [...targets] }) };
  try {
    const asked = await Promise.allSettled(
      layouts.map(async (layout): Promise<AskedPass[]> => {
        const reply = await askDaemon(layout, 'poll', wish, { signal, report: () => {} });
        return reply === null ? [] : [{ shardIndex: layout.shardIndex, ...reply.result }];
      }),
    );
    return asked.flatMap((each) => {
      if (each.status === 'rejected') throw each.reason;
      return each.value;
    });
  } finally {
    stopListening();
  }
}

function worse(worst: ExitCode, outcome: PassOutcome | null): ExitCode {
  return outcome !== null && outcome.exitCode > worst ? outcome.exitCode : worst;
}

/** The passes, for a person. */
export function describePasses(passes: readonly AskedPass[]): TerminalText {
  const lines = passes.map(({ shardIndex, outcome }) => {
    const who = shardIndex === null ? '' : `${shardIndex}: `;
    return outcome === null ? say`${who}The daemon makes a pass.` : say`${who}${describeAnswer(outcome)}`;
  });
  const isIncomplete = passes.some(({ outcome }) => outcome?.exitCode === EXIT_CODES.incomplete);
  return joinLines([
    ...lines,
    ...(isIncomplete ? [say`\`${ownCommand('status')}\` says which targets are not done, and why.`] : []),
  ]);
}

function describeAnswer({ summary, failure }: PassOutcome): TerminalText {
  if (summary !== null) return describeEvent({ name: 'pass.finished', ...summary });
  if (failure === null) return say`The pass failed.`;
  return describeEvent({ name: 'pass.failed', trigger: 'poll', durationMs: 0, ...failure });
}
