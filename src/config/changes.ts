import { createHash } from 'node:crypto';

import { settingDescriptors, settingValue } from './descriptors.ts';
import type { Settings } from './schema.ts';
import { Secret } from './secret.ts';

/** Digests of the values of all settings, by dotted name: to be compared, not to be read. */
export type SettingDigests = ReadonlyMap<string, string>;

/**
 * Digests settings as they are now. A secret that is in a file changes by itself, so that two settings objects can only be
 * compared by what they were when they were noted.
 */
export function digestSettings(settings: Settings): SettingDigests {
  return new Map(settingDescriptors.map(({ name }) => [name, digestOf(settingValue(settings, name))]));
}

/** The settings that differ, by dotted name, in the order of the schema. */
export function changedSettings(before: SettingDigests, after: SettingDigests): string[] {
  return [...after.keys()].filter((name) => before.get(name) !== after.get(name));
}

/** New settings in which what needs a restart is as it was before. */
export function keepUntilRestart<S extends Settings>(next: S, before: S): S {
  return {
    ...next,
    directory: before.directory,
    standby: before.standby,
    shard: before.shard,
    state: before.state,
    publish: before.publish,
    readerGrace: before.readerGrace,
    drift: before.drift,
    history: before.history,
    log: { ...next.log, format: before.log.format },
    http: { ...next.http, listen: before.http.listen },
  };
}

/** The files that settings name and that hold a part of them: those of the secrets. Absolute paths. */
export function filesOfSettings(settings: Settings): string[] {
  return settingDescriptors.flatMap(({ name, fileOf }) => {
    const path = fileOf === undefined ? undefined : settingValue(settings, name);
    return typeof path === 'string' ? [path] : [];
  });
}

/** Tells one value of settings from another, its secrets included. Not to be read. */
function digestOf(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([revealed(value)]))
    .digest('hex');
}

/** A value with its secrets, which JSON would mask. */
function revealed(value: unknown): unknown {
  if (value instanceof Secret) return value.revealAll();
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, revealed(member)]));
}
