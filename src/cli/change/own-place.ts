import type { Command } from 'commander';

import type { EventSink } from '../../app/events.ts';
import { openMirror, openMirrorStore } from '../../app/open-mirror.ts';
import { openRecalledState } from '../../app/open-reader.ts';
import { type PassOutcome, passOutcome, type TaskPlace, type TaskSettings } from '../../app/tasks/task.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';
import { createHooks, HOOKS_CLOSE_MS } from '../../daemon/hooks/hooks.ts';
import { makePass } from '../../daemon/pass-loop.ts';
import { createMirrorStatus } from '../../daemon/status/mirror-status.ts';
import { isReady } from '../../daemon/status/status-service.ts';
import { closing } from '../../lib/concurrency/shared-work.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { PullMonitor, type Trigger } from '../../mirror/pass/events.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import type { Retries } from '../../mirror/plan/actions.ts';
import { tell, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { createProgress } from './progress.ts';

/** The settings of a command, read now: root becomes the owner of the directory later, who may not be able to read every secret. */
export function ownSettings(command: Command): TaskSettings {
  return {
    ofDirectory: readNow(() => settingsOf(command, ['directory']).settings),
    ofService: readNow(() => settingsOf(command, ['service']).settings),
    ofMirror: readNow(() => settingsOf(command, ['service', 'directory']).settings),
  };
}

function readNow<T>(read: () => T): () => T {
  try {
    const value = read();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** This process as the place for the tasks of a command. Root becomes the owner of the directory. */
export async function placeOf(command: Command): Promise<TaskPlace> {
  const settings = ownSettings(command);
  const { directory } = settingsOf(command, []).settings;
  if (directory !== undefined) await becomeOwnerOf(directory);
  return ownPlace(settings);
}

/** This process as the place for tasks. Each task opens the directory itself. */
export function ownPlace(settings: TaskSettings): TaskPlace {
  return {
    settings,
    isDaemon: false,
    makePass: (targets) =>
      sync(settings.ofMirror(), targets === null ? {} : { trigger: 'retry', retries: new Set(targets) }),
    live: () => Promise.resolve(null),
    whileIdle: async (work) => {
      const ofDirectory = settings.ofDirectory();
      const store = await openMirrorStore(ofDirectory);
      return closing({ close: () => store.lock.release() }, async () => {
        const { state } = await openRecalledState(ofDirectory, store, false, tellEvent);
        return closing(state, () => work({ emit: () => {}, store, state, isPulling: () => false }));
      });
    },
  };
}

/** Makes one pass in this process. @throws MirrorError if the pass fails as a whole */
export async function sync(
  settings: SettingsFor<'service' | 'directory'>,
  how: Partial<{ trigger: Trigger; adopt: boolean; retries: Retries }> = {},
): Promise<PassOutcome> {
  const { trigger = 'command', adopt = false, retries = 'all' } = how;
  const monitor = new PullMonitor();
  const progress = createProgress(secretsOf(settings), monitor);
  const sinks = [progress.sink];
  const emitAll: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emitAll, { adopt, monitor }).catch((error: unknown) => {
    progress.close();
    throw error;
  });
  const readMirror = createMirrorStatus(() => settings, mirror, progress.live);
  const hooks = createHooks(() => settings, mirror, emitAll, readMirror);
  sinks.push(hooks.sink);
  return untilStopped(async (signal) => {
    signal.addEventListener('abort', () => void hooks.close(0));
    try {
      const report = await makePass(mirror, readMirror, { trigger, signal, retries });
      const hooksDue = await hooks.settled();
      progress.close();
      const due = counted(hooksDue, 'target');
      if (hooksDue > 0)
        tell(say`! hooks.afterPublish did not succeed for ${due}: the next pass runs it again`, 'warn');
      return passOutcome(report, hooksDue === 0 && (await isReady({ readMirror })));
    } finally {
      await hooks.close(HOOKS_CLOSE_MS);
      progress.close();
      await mirror.close();
    }
  });
}
