import { resolve } from 'node:path';

import { type Command, Option } from 'commander';

import { type SettingDescriptor, settingDescriptors } from '../../config/descriptors.ts';
import type { Need } from '../../config/kinds.ts';
import { DEFAULT_CONFIG_FILE, type LoadedSettings, loadSettings } from '../../config/load.ts';
import { removedSettings } from '../../config/removed-settings.ts';
import { type Invocation, programOf, rememberInvocation } from '../../lib/text/own-command.ts';
import { MORE_SETTINGS } from '../help/help-screen.ts';
import type { FlagSet } from './flag-sets.ts';

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

/** The settings that a command has loaded, by its needs. */
const loadedBefore = new WeakMap<Command, Map<string, unknown>>();

/**
 * Loads the settings for a command: its flags over the environment over the file. Once root continues as the owner of the directory, who
 * may not be able to read every file, the settings stay as they were loaded before.
 * @throws MirrorError `settings.invalid`
 */
export function settingsOf<const Needs extends readonly Need[]>(
  command: Command,
  needs: Needs,
): LoadedSettings<Needs> {
  const key = needs.join(' ');
  const before = loadedBefore.get(command) ?? new Map<string, unknown>();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the key is the type
  const known = before.get(key) as LoadedSettings<Needs> | undefined;
  if (known !== undefined && process.geteuid?.() !== process.getuid?.()) return known;
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
  loadedBefore.set(command, before.set(key, loaded));
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

/** The settings that a command needs for the disk. */
const OF_DISK: ReadonlySet<string> = new Set(['directory', 'shard', 'state']);

/**
 * The flags of this process that suggested commands must repeat, because the settings file of the machine lacks them. Flags count only for
 * this command, and another shell may not have the directory in its environment.
 * @param onLine the values of the flags, by the dotted name of their setting
 */
export function invocationOf(
  {
    configFile,
    settings: { directory },
    sources,
  }: Pick<LoadedSettings<[]>, 'configFile' | 'sources'> & {
    readonly settings: Pick<LoadedSettings<[]>['settings'], 'directory'>;
  },
  onLine: Readonly<Record<string, string | readonly string[]>>,
  env: NodeJS.ProcessEnv,
): Invocation {
  const config =
    configFile === undefined || configFile === DEFAULT_CONFIG_FILE ? [] : ['--config', configFile];
  const ofShell =
    directory === undefined || sources['directory']?.kind !== 'environment' ? [] : ['--directory', directory];
  const repeated = settingDescriptors.flatMap(({ name, flag, kind }) => {
    const given = onLine[name];
    if (flag === undefined || given === undefined) return [];
    if (typeof given !== 'string') return [{ name, words: given.map((word) => `${flag}=${word}`) }];
    return [{ name, words: [flag, kind === 'path' ? resolve(given) : given] }];
  });
  const ofDisk = repeated.filter(({ name }) => OF_DISK.has(name));
  return {
    program: programOf(env),
    diskFlags: [...config, ...ofShell, ...ofDisk.flatMap(({ words }) => words)],
    passFlags: [...config, ...ofShell, ...repeated.flatMap(({ words }) => words)],
  };
}
