import type { Command } from 'commander';

import { askDaemon, isDaemonListening } from '../../app/control.ts';
import { firstOf } from '../../app/target-names.ts';
import { runTask, type TaskName, type TaskRequest, type TaskResult, TASKS } from '../../app/tasks/table.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import { STOP_SIGNALS, untilStopped } from '../../lib/process/signals.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import { otherInstances } from '../../mirror/store/shards.ts';
import { flagsOf, settingsOf } from '../settings/settings-flags.ts';
import { createLiveLine } from './live-line.ts';
import { tell, tellEvent } from './output.ts';

/** A process that does tasks for a command: a daemon, or this one. */
export type TaskRunner = ReturnType<typeof taskRunner>;

/** @param layout of the directory of the daemon; null for this process */
export function taskRunner(command: Command, layout: DirectoryLayout | null = null) {
  return {
    isDaemon: layout !== null,
    /** The index of the instance; null for a single instance. */
    shardIndex: layout?.shardIndex ?? null,
    /**
     * Does a task, shows its progress, and ends the wait for it on a signal. A task that only reads also ends when its terminal is closed.
     * @throws MirrorError those of the task, `daemon.absent`, `pass.abandoned`
     */
    run: async <Name extends TaskName>(name: Name, wish: TaskRequest<Name>): Promise<TaskResult<Name>> => {
      const isRead = TASKS[name].kind === 'read';
      const place = layout ?? (await (await import('../change/own-place.ts')).placeOf(command));
      // This process shows the events of its own pass elsewhere.
      const pass =
        layout === null || isRead ? null : (await import('../change/progress.ts')).createProgress([]);
      const line = createLiveLine();
      const progress = { emit: pass?.sink ?? tellEvent, tell: (text: string) => line.show(() => text) };
      const names = isRead ? [...STOP_SIGNALS, 'SIGHUP' as const] : STOP_SIGNALS;
      const work = (signal: AbortSignal): Promise<TaskResult<Name>> =>
        'makePass' in place
          ? runTask(name, { ...place, signal, ...progress }, wish)
          : askDaemon(place, name, wish, { signal, ...progress });
      return untilStopped(work, { names }).finally(() => {
        line.clear();
        pass?.close();
      });
    },
  };
}

/** Has some processes do a task at the same time, and waits for all of them. @returns each with its result @throws as {@link taskRunner} */
export async function runAll<Name extends TaskName>(
  runners: readonly TaskRunner[],
  name: Name,
  wish: TaskRequest<Name>,
) {
  const ended = await Promise.allSettled(
    runners.map(async (runner) => ({ runner, result: await runner.run<Name>(name, wish) })),
  );
  return ended.map((each) => {
    if (each.status === 'rejected') throw each.reason;
    return each.value;
  });
}

/** Settings that choose the daemon. */
const OF_DAEMON: ReadonlySet<string> = new Set(['directory', 'shard']);

/**
 * Finds the processes that do the tasks of a command: the daemon of the directory, all daemons that share it if the settings name no share,
 * or this process if none listens.
 * @param isReading whether the tasks change nothing. This process then does them if the user may not ask the daemon, or if flags give
 *   other settings than the daemon has.
 */
export async function taskRunners(command: Command, isReading: boolean): Promise<readonly TaskRunner[]> {
  const isOwn = isReading && flagsNotOfDaemon(command).length > 0;
  const daemons = isOwn ? [] : await daemonsOf(command, isReading && canAskService(command));
  if (daemons.length === 0) return [taskRunner(command)];
  warnOfFlags(command);
  return daemons;
}

function flagsNotOfDaemon(command: Command): string[] {
  return Object.keys(flagsOf(command)).filter((name) => !OF_DAEMON.has(name));
}

/** Warns that a daemon, which does the work of this command, has its own settings. */
export function warnOfFlags(command: Command): void {
  const names = flagsNotOfDaemon(command);
  if (names.length > 0)
    tell(
      say`! The running daemon has its own settings: the flags for ${names.join(', ')} have no effect.`,
      'warn',
    );
}

/** Whether this user can read all settings for requests to the service. */
function canAskService(command: Command): boolean {
  try {
    settingsOf(command, ['service']);
    return true;
  } catch {
    return false;
  }
}

/**
 * Does a task that asks the service and no mirror, in the first process that can.
 * @throws as {@link taskRunner}
 */
export async function runOnce<Name extends TaskName>(
  command: Command,
  name: Name,
  wish: TaskRequest<Name>,
): Promise<TaskResult<Name>> {
  const [first = taskRunner(command)] = await taskRunners(command, TASKS[name].kind === 'read');
  return first.run(name, wish);
}

/**
 * The daemons that listen for commands in the directory of the settings; none if the settings name no directory.
 * @param withoutRefusing whether to leave out daemons that this user may not ask
 * @throws MirrorError if this user may not ask one
 */
export async function daemonsOf(command: Command, withoutRefusing = false): Promise<readonly TaskRunner[]> {
  const { directory, shard } = settingsOf(command, []).settings;
  if (directory === undefined) return [];
  const whole = layoutOf(directory);
  const layouts =
    shard === undefined ? [whole, ...(await otherInstances(whole))] : [layoutOf(directory, shard)];
  const areListening = await Promise.all(
    layouts.map((layout) =>
      isDaemonListening(layout).catch((error: unknown) => {
        if (withoutRefusing && error instanceof MirrorError) return false;
        throw error;
      }),
    ),
  );
  return layouts.filter((_, index) => areListening[index]).map((layout) => taskRunner(command, layout));
}

/**
 * The exit code for what the daemons that were reached, each with its shard, do not mirror. Warns of it.
 * @param left the named targets that none of them mirrors; null if no target is named, so that whole shards count
 */
export async function exitCodeOfShards(
  command: Command,
  runners: readonly TaskRunner[],
  left: readonly string[] | null,
): Promise<ExitCode> {
  const missing = left ?? (await absentShards(command, runners));
  if (missing.length === 0) return EXIT_CODES.ok;
  tell(
    say`! No daemon that was reached mirrors ${firstOf(missing).join(', ')}: \`${ownCommand('status --all')}\` shows all shards.`,
    'warn',
  );
  return EXIT_CODES.incomplete;
}

/** The shards whose daemons were not reached, if several share the directory and the settings name none. */
async function absentShards(command: Command, runners: readonly TaskRunner[]): Promise<readonly string[]> {
  const { directory, shard } = settingsOf(command, ['directory']).settings;
  const reached = new Set(runners.map(({ shardIndex }) => shardIndex));
  if (shard !== undefined || reached.has(null)) return [];
  const [{ readShareReports }, { judgeWhole }] = await Promise.all([
    import('../../mirror/store/documents.ts'),
    import('../read/status-all.ts'),
  ]);
  const { shares } = judgeWhole(await readShareReports(layoutOf(directory)), Date.now());
  return shares.flatMap(({ index }) => (reached.has(index) ? [] : [`shard ${index}`]));
}

/** The highest exit code. */
export function worstOf(exitCodes: readonly ExitCode[]): ExitCode {
  return exitCodes.reduce<ExitCode>((worst, each) => (each > worst ? each : worst), 0);
}
