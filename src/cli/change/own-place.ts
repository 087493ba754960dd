import type { Command } from 'commander';

import { openMirrorStore } from '../../app/open-mirror.ts';
import { openRecalledState } from '../../app/open-reader.ts';
import type { TaskPlace, TaskSettings } from '../../app/tasks/task.ts';
import { secretsOf } from '../../config/secret.ts';
import { tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { progressOf } from './progress.ts';
import { sync } from './own-pass.ts';

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

/** This process as the place for tasks. Each task opens the directory itself. */
export function ownPlace(settings: TaskSettings): TaskPlace {
  return {
    settings,
    isDaemon: false,
    makePass: async (targets) => {
      const ofMirror = settings.ofMirror();
      const how = targets === null ? {} : { trigger: 'retry' as const, retries: new Set(targets) };
      return (await sync(ofMirror, progressOf(secretsOf(ofMirror)), how)).outcome;
    },
    live: () => Promise.resolve(null),
    whileIdle: async (work) => {
      const ofDirectory = settings.ofDirectory();
      const store = await openMirrorStore(ofDirectory);
      try {
        const { state } = await openRecalledState(ofDirectory, store, false, tellEvent);
        try {
          return await work({ emit: () => {}, store, state, isPulling: () => false });
        } finally {
          await state.close();
        }
      } finally {
        await store.lock.release();
      }
    },
  };
}
