import { type Command, Option } from 'commander';

import { type SettingDescriptor, settingDescriptors } from '../../config/descriptors.ts';
import type { Need } from '../../config/kinds.ts';
import { type LoadedSettings, loadSettings } from '../../config/load.ts';
import { removedSettings } from '../../config/removed-settings.ts';
import { rememberInvocation } from '../../lib/text/own-command.ts';
import type { FlagSet } from './flag-sets.ts';
import { MORE_SETTINGS } from '../help/help-screen.ts';
import { invocationOf } from './invocation.ts';

function belongs(name: string, { reads }: FlagSet): boolean {
  if (reads === 'all') return true;
  if (reads === 'mirror') return !name.startsWith('serve.');
  return reads.some((each) => name === each || name.startsWith(`${each}.`));
}

function describe({ description, defaultText, need }: SettingDescriptor, { needs }: FlagSet): string {
  const value = need === undefined ? ` (default: ${defaultText})` : needs.includes(need) ? ' (required)' : '';
  return `${description}${defaultText === 'none' ? '' : value}`.replaceAll('`', '');
}

/** Keeps every value of a flag: the first value of a repeated flag must not vanish silently. */
function keepAll(value: string, before: string | string[] | undefined): string | string[] {
  return before === undefined ? value : [before, value].flat();
}

/** The heading of the usual flags in help. */
const SETTINGS = 'Settings (each is also a variable and a key of the settings file):';

/** Gives a command a flag for each of its settings. Flags of removed settings are hidden, and refused on loading. */
export function addSettingsFlags(command: Command, set: FlagSet): void {
  for (const setting of settingDescriptors) {
    if (setting.flag === undefined || !belongs(setting.name, set)) continue;
    const isList = setting.kind === 'list';
    const option = new Option(
      `${setting.flag} ${isList ? setting.valueHint.replace('>', '...>') : setting.valueHint}`,
      describe(setting, set),
    );
    if (!isList) option.argParser(keepAll);
    command.addOption(option.helpGroup(set.onLine.includes(setting.name) ? SETTINGS : MORE_SETTINGS));
  }
  for (const { flag } of removedSettings) command.addOption(new Option(`${flag} [value]`).hideHelp());
}

/** Loads the settings for a command: its flags over the environment over the file. @throws SettingsError `settings.invalid` */
export function settingsOf<const Needs extends readonly Need[]>(
  command: Command,
  needs: Needs,
): LoadedSettings<Needs> {
  const values: Readonly<Record<string, unknown>> = command.optsWithGlobals();
  const onLine = flagsOf(command);
  const flags = { ...onLine };
  // `--quiet` and `--verbose` set the log level of `run`, unless `--log-level` does.
  if (values['verbose'] === true) flags['log.level'] ??= 'debug';
  if (values['quiet'] === true) flags['log.level'] ??= 'error';
  const configFile = values['config'];
  const loaded = loadSettings({
    flags,
    env: process.env,
    needs,
    ...(typeof configFile === 'string' ? { configFile } : {}),
  });
  rememberInvocation(invocationOf(loaded, onLine, process.env));
  return loaded;
}

/** The settings given by the flags of a command, by their dotted names. */
export function flagsOf(command: Command): Record<string, string | string[]> {
  const values: Readonly<Record<string, unknown>> = command.optsWithGlobals();
  const flags: Record<string, string | string[]> = {};
  for (const { name, flag } of [...settingDescriptors, ...removedSettings]) {
    // Commander stores the value of `--service-base-url` as `serviceBaseUrl`.
    const value = flag === undefined ? undefined : values[new Option(flag).attributeName()];
    if (typeof value === 'string' || value === true) flags[name] = String(value);
    if (Array.isArray(value)) flags[name] = value.map(String);
  }
  return flags;
}
