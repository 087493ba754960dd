import { resolve } from 'node:path';

import { settingDescriptors } from '../../config/descriptors.ts';
import { DEFAULT_CONFIG_FILE } from '../../config/load.ts';
import type { SettingSources } from '../../config/layers.ts';
import { type Environment, type Invocation, programOf } from '../../lib/text/own-command.ts';

/** The parts of loaded settings that depend on the command line and environment. */
interface Called {
  readonly configFile: string | undefined;
  readonly settings: { readonly directory?: string | undefined };
  readonly sources: SettingSources;
}

/** The settings that a command needs for the disk. */
const OF_DISK: ReadonlySet<string> = new Set(['directory', 'state']);

/**
 * The flags of this process that suggested commands must repeat, because the settings file of the machine lacks them. Flags count only for
 * this command, and another shell may not have the directory in its environment.
 * @param onLine the values of the flags, by the dotted name of their setting
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
