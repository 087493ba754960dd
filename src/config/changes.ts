import { hash } from 'node:crypto';
import { realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

import { settingDescriptors, settingValue, setValue } from './descriptors.ts';
import type { Settings } from './schema.ts';
import { Secret } from './secret.ts';

/** Digests of the values of all settings, by dotted name, only for comparison. */
export type SettingDigests = ReadonlyMap<string, string>;

/**
 * Digests the present settings. A secret in a file changes while the program runs, so settings objects can
 * only be compared by their digests from the time when each was noted.
 */
export function digestSettings(settings: Settings): SettingDigests {
  return new Map(
    settingDescriptors.map(({ name }) => {
      const text = JSON.stringify([settingValue(settings, name)], revealed);
      return [name, hash('sha256', text)];
    }),
  );
}

/** Replaces the masks that secrets have in JSON by their values. */
function revealed(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Secret ? own.revealAll() : value;
}

/** The names of the settings that differ, in the order of the schema. */
export function changedSettings(before: SettingDigests, after: SettingDigests): string[] {
  return [...after.keys()].filter((name) => before.get(name) !== after.get(name));
}

/** New settings, except that those that need a restart keep their old values. */
export function keepUntilRestart<S extends Settings>(next: S, before: S): S {
  const kept = { ...next };
  for (const { name, needsRestart } of settingDescriptors)
    if (needsRestart) setValue(kept, name, settingValue(before, name));
  return kept;
}

/** The setting by which several instances use one directory, which needs locks; null for a single instance. */
export function sharingSetting({
  standby,
  shard,
}: Pick<Settings, 'standby' | 'shard'>): 'standby' | 'shard' | null {
  if (standby) return 'standby';
  return shard === undefined ? null : 'shard';
}

/** The files with secrets that settings name. Absolute paths. */
export function filesOfSettings(settings: Settings): string[] {
  return settingDescriptors.flatMap(({ name, fileOf }) => {
    const path = fileOf === undefined ? undefined : settingValue(settings, name);
    return typeof path === 'string' ? [path] : [];
  });
}

/** Permissions for users who are neither owner nor group: to read a file, to enter a folder. */
const OTHERS_READ = 0o004;
const OTHERS_ENTER = 0o001;

/** File systems in memory (statfs(2)): tmpfs and ramfs. */
const IN_MEMORY: ReadonlySet<number> = new Set([0x0102_1994, 0x8584_58f6]);

/**
 * Finds the files with secrets that every user of the machine can read. Files from a service manager or a container platform
 * are in memory, with modes that are its own business (systemd.exec(5), "Credentials"; Kubernetes, volumes of secrets).
 * @param others more files with a secret, for example a settings file with one in it
 */
export function exposedSecretFiles(settings: Settings, others: readonly string[] = []): string[] {
  return [...others, ...filesOfSettings(settings)].filter((file) => {
    try {
      const path = realpathSync(file);
      const stat = statSync(path);
      if (!stat.isFile() || (stat.mode & OTHERS_READ) === 0) return false;
      return isOpenToOthers(dirname(path)) && !IN_MEMORY.has(statfsSync(path).type);
    } catch {
      return false;
    }
  });
}

/** Whether every user may enter a folder and all above it. */
function isOpenToOthers(folder: string): boolean {
  if ((statSync(folder).mode & OTHERS_ENTER) === 0) return false;
  return folder === '/' || isOpenToOthers(dirname(folder));
}
