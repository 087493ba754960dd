import { openMirror } from '../../app/open-mirror.ts';
import type { EventSink } from '../../app/events.ts';
import { chosenTargets } from '../../app/target-names.ts';
import { type PassOutcome, passOutcome } from '../../app/tasks/task.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { Hooks, HOOKS_CLOSE_MS } from '../../daemon/hooks/hooks.ts';
import { MirrorStatusReader } from '../../daemon/status/mirror-status.ts';
import { tellShare } from '../../daemon/status/share-report.ts';
import { isReady } from '../../daemon/status/status-service.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import type { Trigger } from '../../mirror/pass/events.ts';
import { runPass } from '../../mirror/pass/pass.ts';
import type { Retries } from '../../mirror/plan/actions.ts';
import type { CommandProgress } from './progress.ts';

/**
 * Makes one pass in this process.
 * @param how.names names and patterns of the targets to pull; none for all
 * @throws MirrorError if the pass fails as a whole
 */
export async function sync(
  settings: SettingsFor<'service' | 'directory'>,
  progress: CommandProgress,
  {
    trigger = 'command',
    adopt = false,
    retries = 'all',
    names = [],
  }: {
    readonly trigger?: Trigger;
    readonly adopt?: boolean;
    readonly retries?: Retries;
    readonly names?: readonly string[];
  } = {},
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
  const choose = (paths: readonly string[]): readonly string[] =>
    chosenTargets(names, mirror.store.layout.mirror, paths);
  const hooks = new Hooks(() => settings, mirror, emitAll, { readMirror: status.read });
  sinks.push(status.sink, hooks.sink);
  return untilStopped(async (signal) => {
    signal.addEventListener('abort', () => void hooks.close(0));
    try {
      const policy = names.length === 0 ? mirror.policy : { ...mirror.policy, choose };
      const report = await runPass(mirror.context, policy, trigger, signal, retries).catch(
        async (error: unknown) => {
          if (!signal.aborted) await tellShare(status.read, mirror, error);
          throw error;
        },
      );
      await tellShare(status.read, mirror, null);
      await mirror.rememberInstallation();
      const hooksDue = await hooks.settled();
      const isDone = hooksDue === 0 && (await isReady({ readMirror: status.read }));
      return { outcome: passOutcome(report, isDone), hooksDue };
    } finally {
      await hooks.close(HOOKS_CLOSE_MS);
      progress.close();
      await mirror.close();
    }
  });
}
