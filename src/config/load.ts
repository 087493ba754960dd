import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { systemCode } from '../lib/errors/disk-errors.ts';
import { CONFIG_VARIABLE, fileSettingOf } from './descriptors.ts';
import { failed, fileLayer } from './file.ts';
import type { Need } from './kinds.ts';
import {
  credentialLayer,
  environmentLayer,
  flagLayer,
  type Layer,
  type Resolution,
  resolveSettings,
} from './layers.ts';
import { type SettingProblem, type SettingSource, UNIT_SECRETS } from './problems.ts';

/** The settings file that is read by default. */
export const DEFAULT_CONFIG_FILE = '/etc/workbook-mirror/config.yaml';

/** The arguments of {@link loadSettings}. */
export interface LoadRequest<T extends readonly Need[]> {
  /** The values of flags by the dotted name of their setting; a repeated flag as a list. */
  readonly flags: Readonly<Record<string, string | readonly string[]>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The file given by `--config`. */
  readonly configFile?: string | undefined;
  /** The parts that the command requires; from a literal list they are typed as present. */
  readonly needs: T;
  /** The base folder for relative paths in flags and variables; by default the working directory. */
  readonly cwd?: string;
  /** Replaces {@link DEFAULT_CONFIG_FILE}, which is read if it exists and no file is named. */
  readonly defaultConfigFile?: string;
}

/** The settings, and the source of each, by dotted name. */
export interface LoadedSettings<T extends readonly Need[]> extends Resolution<T> {
  /** The file that was read, absolute; undefined if there was none. */
  readonly configFile: string | undefined;
}

/**
 * Reads the settings from flags, environment, file and systemd credentials, the strongest first, and validates them.
 *
 * @throws MirrorError `settings.invalid`, with all problems
 */
export function loadSettings<const T extends readonly Need[]>(request: LoadRequest<T>): LoadedSettings<T> {
  const { flags, env, needs, cwd = process.cwd() } = request;
  const choice = chooseFile(request, cwd);
  const file = readLayer(choice);
  const layers = [
    flagLayer(flags, cwd),
    environmentLayer(env, cwd),
    ...(file === undefined ? [] : [file]),
    credentialLayer(env['CREDENTIALS_DIRECTORY']),
  ];
  const adviceOn = (missing: readonly SettingProblem[]): string => {
    if (file === undefined) return noFileAdvice(choice.path);
    const isInUnit = (env['CREDENTIALS_DIRECTORY'] ?? env['INVOCATION_ID']) !== undefined;
    const isSecret = missing.some(({ setting = '' }) => fileSettingOf(setting) !== undefined);
    return isSecret && !isInUnit ? UNIT_SECRETS : '';
  };
  const configFile = file === undefined ? undefined : choice.path;
  return { ...resolveSettings(layers, needs, adviceOn), configFile };
}

/** The absolute path of the file, and where it was named; nowhere for the default, which may be absent. */
function chooseFile(
  request: LoadRequest<readonly Need[]>,
  cwd: string,
): { readonly path: string; readonly source?: SettingSource } {
  const variable = request.env[CONFIG_VARIABLE];
  if (request.configFile !== undefined)
    return { path: resolve(cwd, request.configFile), source: { kind: 'flag', detail: '--config' } };
  if (variable !== undefined)
    return { path: resolve(cwd, variable), source: { kind: 'environment', detail: CONFIG_VARIABLE } };
  return { path: request.defaultConfigFile ?? DEFAULT_CONFIG_FILE };
}

/** Undefined if the default file is absent. */
function readLayer({ path, source }: ReturnType<typeof chooseFile>): Layer | undefined {
  try {
    return fileLayer(readFileSync(path), path);
  } catch (error) {
    const code = systemCode(error);
    if (code === undefined) throw error;
    if (source === undefined && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    return failed(source, `the settings file ${path} cannot be read (${code})`);
  }
}

/** Reports where a settings file was looked for. */
function noFileAdvice(path: string): string {
  return `No settings file was read: ${path} does not exist. Name a file by --config FILE after the command, or by ${CONFIG_VARIABLE}.`;
}
