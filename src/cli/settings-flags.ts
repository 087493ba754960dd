import { type Command, Option } from 'commander';

import { type SettingDescriptor, settingDescriptors } from '../config/descriptors.ts';
import type { Need } from '../config/leaf.ts';
import { type LoadedSettings, loadSettings } from '../config/load.ts';
import { checkSchedule } from '../daemon/schedule.ts';

/**
 * Which settings a command has flags for: those of the daemon, those of the embedded service (alone, or also of a mirror in its
 * place), or where the mirror is.
 */
export type FlagSet = 'mirror' | 'serve' | 'serve-either' | 'all' | 'place';

function belongs(name: string, set: FlagSet): boolean {
  if (set === 'place') return name === 'directory';
  if (set === 'serve-either' && name === 'directory') return true;
  if (set === 'all' || name.startsWith('log.')) return true;
  return name.startsWith('serve.') === (set !== 'mirror');
}

function describe({ description, defaultText }: SettingDescriptor): string {
  const note =
    defaultText === '(required)' ? ' (required)' : defaultText === 'none' ? '' : ` (default: ${defaultText})`;
  return `${description}${note}`.replaceAll('`', '');
}

/** Gives a command `--config` and a flag for each of its settings. */
export function addSettingsFlags(command: Command, set: FlagSet): Command {
  command.addOption(
    new Option(
      '--config <file>',
      'settings file (default: /etc/workbook-mirror/config.yaml, if it is there)',
    ),
  );
  for (const setting of settingDescriptors) {
    if (setting.flag === undefined || !belongs(setting.name, set)) continue;
    const isList = setting.kind === 'list';
    const option = new Option(
      `${setting.flag} ${isList ? setting.valueHint.replace('>', '...>') : setting.valueHint}`,
      describe(setting),
    );
    command.addOption(option.helpGroup('Settings (each is also a variable and a key of the settings file):'));
  }
  return command;
}

/** Loads the settings for a command: its flags over the environment over the file. */
export function settingsOf<const Needs extends readonly Need[]>(
  command: Command,
  needs: Needs,
): LoadedSettings<Needs> {
  const values: Record<string, unknown> = command.optsWithGlobals();
  const flags: Record<string, string | string[]> = {};
  for (const setting of settingDescriptors) {
    if (setting.flag === undefined) continue;
    const value = values[attributeOf(setting.flag)];
    if (typeof value === 'string') flags[setting.name] = value;
    if (Array.isArray(value)) flags[setting.name] = value.map(String);
  }
  // `run` tells by its log; what is said of that by its own name counts more.
  if (values['verbose'] === true) flags['log.level'] ??= 'debug';
  if (values['quiet'] === true) flags['log.level'] ??= 'error';
  const configFile = values['config'];
  return loadSettings({
    flags,
    env: process.env,
    needs,
    checkSchedule,
    ...(typeof configFile === 'string' ? { configFile } : {}),
  });
}

/** The name under which commander keeps a flag's value: `--service-base-url` is `serviceBaseUrl`. */
function attributeOf(flag: string): string {
  return new Option(flag).attributeName();
}
