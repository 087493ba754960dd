import { createHash } from 'node:crypto';

import { settingDescriptors } from './descriptors.ts';
import type { Settings } from './schema.ts';
import { Secret } from './secret.ts';
import { settingValue } from './setting-value.ts';

/** What each setting comes to, by dotted name: to be compared, not to be read. */
export type SettingDigests = ReadonlyMap<string, string>;

/**
 * Notes what settings come to now. A secret that is in a file changes by itself, so that two settings objects can only be
 * compared by what they were when they were noted.
 */
export function digestSettings(settings: Settings): SettingDigests {
  return new Map(settingDescriptors.map(({ name }) => [name, digestOf(settingValue(settings, name))]));
}

/** The settings that differ, by dotted name, in the order of the schema. */
export function changedSettings(before: SettingDigests, after: SettingDigests): string[] {
  return [...after.keys()].filter((name) => before.get(name) !== after.get(name));
}

const restartNames: ReadonlySet<string> = new Set(
  settingDescriptors.flatMap(({ name, needsRestart }) => (needsRestart ? [name] : [])),
);

/** Whether a setting is in force only after a restart. */
export function needsRestart(name: string): boolean {
  return restartNames.has(name);
}

/** The files that settings name and that hold a part of them: those of the secrets. Absolute paths. */
export function filesOfSettings(settings: Settings): string[] {
  return settingDescriptors.flatMap(({ name, fileOf }) => {
    const path = fileOf === undefined ? undefined : settingValue(settings, name);
    return typeof path === 'string' ? [path] : [];
  });
}

function digestOf(value: unknown): string {
  const text = JSON.stringify(value, (_key, member: unknown) =>
    member instanceof Secret ? member.reveal() : member,
  );
  return createHash('sha256').update(String(text)).digest('hex');
}
