import type { SettingsFor } from '../../config/schema.ts';
import { secretsIn } from '../../config/secret.ts';
import type { SettingsPart } from './live-settings.ts';

/** The secrets as they are now, to keep them out of every output: also the password alone of the store's address. */
export function secretsOf(settings: SettingsFor<never>): string[] {
  const { state } = settings;
  const passwords = state.store === 'sqlite' ? [] : passwordOf(state.address.reveal());
  return [...secretsIn(settings), ...passwords];
}

/** The password in a store's address, as it stands there and as it is meant. */
function passwordOf(address: string): string[] {
  const password = URL.parse(address)?.password ?? '';
  return password === '' ? [] : [password, decodeURIComponent(password)];
}

/** The secrets that a program has known so far: one that was replaced may still stand in what is on its way. */
export interface KnownSecrets extends SettingsPart {
  /** Has those of further settings be known, too, also as their files change. */
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
  return {
    learn,
    all,
    // The secrets of new settings are known before anything is done with them.
    prepare: (settings) => {
      learn(settings);
      return Promise.resolve({ take: () => {}, abandon: () => Promise.resolve() });
    },
  };
}
