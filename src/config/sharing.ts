import type { SettingsFor } from './schema.ts';

/** The setting by which several instances work with one directory, which rests on locks; null for one that is alone. */
export function sharingSetting({
  standby,
  shard,
}: Pick<SettingsFor<'directory'>, 'standby' | 'shard'>): 'standby' | 'shard' | null {
  if (standby) return 'standby';
  return shard === undefined ? null : 'shard';
}
