import { loadSettings } from '../../src/config/load.ts';
import type { SettingsFor } from '../../src/config/schema.ts';
import { variablesOf } from './program.ts';

const WITHOUT_FILE = { flags: {}, defaultConfigFile: '/nonexistent.yaml' } as const;

/** The settings of a command that needs nothing but the directory. @param more variables without the prefix */
export function directorySettings(
  directory: string,
  more: Readonly<Record<string, string>> = {},
): SettingsFor<'directory'> {
  const env = variablesOf({ DIRECTORY: directory, ...more });
  return loadSettings({ ...WITHOUT_FILE, env, needs: ['directory'] }).settings;
}

/** The settings of a mirror. @param values variables without the prefix: `SERVICE_BASE_URL` */
export function mirrorSettings(
  values: Readonly<Record<string, string>>,
): SettingsFor<'service' | 'directory'> {
  return loadSettings({ ...WITHOUT_FILE, env: variablesOf(values), needs: ['service', 'directory'] })
    .settings;
}
