import { secretsOf } from '../../config/secret.ts';
import type { LoadSettings } from './live-settings.ts';

/**
 * Keeps the secrets of all settings that are loaded, also when their files change: a replaced one may still be in messages under way.
 * @returns `load` loads settings; `secrets` gives all secrets so far
 */
export function keepSecrets(loadSettings: LoadSettings) {
  const known = new Set<string>();
  let latest: ReturnType<LoadSettings>['settings'] | null = null;
  const secrets = (): readonly string[] => {
    for (const secret of latest === null ? [] : secretsOf(latest)) known.add(secret);
    return [...known];
  };
  const load: LoadSettings = () => {
    const loaded = loadSettings();
    secrets();
    latest = loaded.settings;
    return loaded;
  };
  return { load, secrets };
}
