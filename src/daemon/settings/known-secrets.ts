import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';

/** The secrets that a program has known so far: a replaced one may still be in messages under way. */
export type KnownSecrets = ReturnType<typeof keepSecrets>;

/** Keeps the secrets of settings. */
export function keepSecrets() {
  const known = new Set<string>();
  let latest: SettingsFor<never> | null = null;
  const all = (): readonly string[] => {
    for (const secret of latest === null ? [] : secretsOf(latest)) known.add(secret);
    return [...known];
  };
  /** Adds the secrets of further settings, also when their files change. */
  const learn = (settings: SettingsFor<never>): void => {
    all();
    latest = settings;
  };
  return { learn, all };
}
