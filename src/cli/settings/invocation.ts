import { resolve } from 'node:path';

import { settingDescriptors } from '../../config/descriptors.ts';
import { DEFAULT_CONFIG_FILE } from '../../config/load.ts';
import type { SettingSources } from '../../config/layers.ts';
import { type Environment, type Invocation, programOf } from '../../lib/text/own-command.ts';

/** The parts of loaded settings that tell how this process was called. */
interface Called {
  readonly configFile: string | undefined;
  readonly settings: { readonly directory?: string | undefined };
  readonly sources: SettingSources;
}

/** The settings that a command reads or changes the disk by. */
const OF_DISK: ReadonlySet<string> = new Set(['directory', 'state']);

/**
 * The flags that commands which this process names must repeat of its own line and environment, as they would not find them in the settings
 * file of the machine. What flags say counts only here; a directory that the environment names may not be known in another shell.
 * @param onLine the values of the flags by the dotted name of their setting
 */
export function invocationOf(
  { configFile, settings: { directory }, sources }: Called,
  onLine: Readonly<Record<string, string | readonly string[]>>,
  env: Environment,
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
