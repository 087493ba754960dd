import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';

/** The secrets that a program has known so far: a replaced one may still be in messages under way. */
export interface KnownSecrets {
  /** Adds the secrets of further settings, also when their files change. */
  readonly learn: (settings: SettingsFor<never>) => void;
  readonly all: () => readonly string[];
}

/** Keeps the secrets of settings. */
export function keepSecrets(): KnownSecrets {
  const known = new Set<string>();
  let latest: SettingsFor<never> | null = null;
  const all = (): readonly string[] => {
    for (const secret of latest === null ? [] : secretsOf(latest)) known.add(secret);
    return [...known];
  };
  const learn = (settings: SettingsFor<never>): void => {
    all();
    latest = settings;
  };
  return { learn, all };
}
