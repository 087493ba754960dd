import { existsSync, lstatSync } from 'node:fs';
import { lchown, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, parse, resolve } from 'node:path';

import type { Command } from 'commander';

import {
  CONFIG_VARIABLE,
  fileSettingOf,
  kebabName,
  settingsByName,
  settingValue,
  setValue,
} from '../../config/descriptors.ts';
import { flagLayer, type Layer } from '../../config/layers.ts';
import { DEFAULT_CONFIG_FILE } from '../../config/load.ts';
import { settingsError } from '../../config/problems.ts';
import { inlineYaml } from '../../config/render.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand, programOf, rememberInvocation } from '../../lib/text/own-command.ts';
import { escapedLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { judged, type Lines, type Outcome, tell, tellError, textOf, under } from '../frame/output.ts';
import { confirmed, openTerminal, type Terminal } from '../frame/terminal.ts';
import { INIT_FLAGS } from '../settings/flag-sets.ts';
import { flagsOf } from '../settings/settings-flags.ts';
import { findApi, give, settingsIn, tryDirectory, tryKey, tryToken } from './checks.ts';

/** A setting, its question, and a check that describes its finding, or throws. */
type Question = readonly [name: string, text: string, check: (layer: Layer) => Promise<string>];

const QUESTIONS: readonly Question[] = [
  ['service.baseUrl', 'Address of the service, as the browser shows it', findApi],
  ['service.apiKey', 'Personal API key (Access > API Key), not shown', tryKey],
  [
    'service.apiToken',
    'With a personal API token (Organization > Personal API Token), v1 says which workbooks changed; without,\n' +
      'contents are compared. The token, not shown, or Enter for none',
    tryToken,
  ],
  ['directory', 'Directory of the mirror', tryDirectory],
];

const ANOTHER_KEY = 'Enter another key: a personal one, not a group key.';

const WITHOUT =
  'Give --yes with --service-base-url, --service-api-key-file and, as wanted, --service-api-token-file, --directory, --config.';

/** `init` */
export async function runInit(command: Command): Promise<Outcome> {
  const { yes = false, config = process.env[CONFIG_VARIABLE] }: { yes?: boolean; config?: string } =
    command.opts();
  const layer = flagLayer(flagsOf(command), process.cwd());
  if (layer.problems.length > 0) throw settingsError(layer.problems);
  const configFile = await answers(layer, config, yes ? null : openTerminal(WITHOUT));
  const isForUnit =
    configFile === DEFAULT_CONFIG_FILE &&
    ['/etc', '/usr/lib'].some((folder) => existsSync(`${folder}/systemd/system/workbook-mirror.service`));
  const settings = settingsIn(layer, ['service', 'directory']);
  const files = filesOf(settings, configFile, isForUnit);
  const taken = files.find(({ path }) => isTaken(path));
  if (yes && taken !== undefined)
    throw new MirrorError('usage.invalid', `${taken.path} is there already, and --yes replaces no file.`);
  const question = taken === undefined ? 'Write this?' : 'Write this, and replace what is there?';
  if (!(await confirmed(describeFiles(files), question, yes)))
    return judged(false, undefined, () => 'Nothing was written.');
  // The daemon of an existing directory runs as its owner, who must be able to read the keys.
  const owner = isForUnit || process.geteuid?.() !== 0 ? null : await unlessMissing(stat(settings.directory));
  for (const { path, text, isSecret } of files) {
    // The user of the unit must be able to read the settings.
    process.umask(isSecret ? 0o077 : 0o022);
    await onDisk(`writing ${path}`, async () => {
      await ensureFolder(dirname(path));
      await replaceFile(path, text, dirname(path));
      if (isSecret && owner !== null) await lchown(path, owner.uid, owner.gid);
    });
  }
  return { text: () => describeNext(configFile, isForUnit ? settings.directory : null) };
}

function isTaken(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Completes the settings, and returns the path of the settings file. @throws MirrorError if one is wrong and cannot be asked for */
async function answers(layer: Layer, config: string | undefined, terminal: Terminal | null): Promise<string> {
  const isRoot = process.geteuid?.() === 0;
  const file = isRoot ? DEFAULT_CONFIG_FILE : join(homedir(), '.config/workbook-mirror/config.yaml');
  const directory = isRoot ? '/var/lib/workbook-mirror' : join(homedir(), 'workbook-mirror');
  try {
    for (const question of QUESTIONS)
      await settle(question, layer, question[0] === 'directory' ? directory : '', terminal);
    return resolve(config ?? (await ask(terminal, 'Settings file', file)));
  } finally {
    terminal?.close();
  }
}

/** @returns the default if nothing is typed, or there is no terminal @throws MirrorError `pass.abandoned` if the input ends */
async function ask(
  terminal: Terminal | null,
  text: string,
  usual: string,
  isHidden = false,
): Promise<string> {
  if (terminal === null) return usual;
  const answer = await terminal.ask(say`${escapedLines(text)}${usual && ` [${usual}]`}: `, isHidden);
  if (answer !== null) return answer === '' ? usual : answer;
  throw new MirrorError('pass.abandoned', 'The input ended before all was answered: nothing was written.');
}

async function settle(
  [name, text, check]: Question,
  layer: Layer,
  usual: string,
  terminal: Terminal | null,
): Promise<void> {
  const names = [name, fileSettingOf(name)?.name ?? name];
  const isGiven = (): boolean => names.some((each) => layer.values.has(each));
  const { secret, need } = settingsByName.get(name) ?? {};
  for (let isOpen = !isGiven(); ; isOpen = true) {
    if (isOpen) {
      for (const each of names) layer.values.delete(each);
      const answer = await ask(terminal, text, usual, secret);
      if (answer !== '') give(layer, name, answer);
    }
    try {
      if (isGiven() || need !== undefined) tell(say`  ${await check(layer)}`);
      return;
    } catch (error) {
      if (terminal === null || !(error instanceof MirrorError)) throw error;
      const { code, message } = error;
      // The usual hint is about a key that is stored.
      tellError(
        code === 'credentials.refused' ? new MirrorError(code, message, { hint: ANOTHER_KEY }) : error,
      );
    }
  }
}

function describeFiles(files: readonly NewFile[]): Lines {
  const lines = files.map(({ path, text, isSecret }) => {
    const settings = say`\n${escapedLines(text.trimEnd()).prefixed('      ')}`;
    const fate = isTaken(path) ? ', in place of the one that is there' : '';
    return say`${path}${fate}:${isSecret ? ' a key, readable only by its owner' : settings}`;
  });
  return ['', under('The files:', lines), ''];
}

/** The next commands. @param ofUnit the directory of the unit that uses the settings; null without a unit */
function describeNext(configFile: string, ofUnit: string | null): TerminalText {
  const flags = configFile === DEFAULT_CONFIG_FILE ? [] : ['--config', configFile];
  rememberInvocation({ program: programOf(process.env), diskFlags: flags, passFlags: flags });
  const isOutside = ofUnit !== null && !`${ofUnit}/`.startsWith('/var/lib/workbook-mirror/');
  const next =
    ofUnit === null
      ? [ownCommand('plan'), ownCommand('run')]
      : ['systemctl enable --now workbook-mirror', ownCommand('status')];
  const first = `${ownCommand('help systemd')} # how to let the unit write in ${ofUnit}`;
  return textOf(under('Written. Next:', isOutside ? [first, ...next] : next));
}

/** A file to write. */
type NewFile = ReturnType<typeof filesOf>[number];

/** The folder of the unit's secrets (systemd.exec(5), "Credentials"). */
const CREDENTIALS = '/etc/credstore/workbook-mirror.';

/**
 * The settings file, and one file for each key. A key that is already in a file stays there; for the unit, whose user may not be able to
 * read that file, it becomes a credential.
 * @param configFile absolute
 */
export function filesOf(
  settings: SettingsFor<'service' | 'directory'>,
  configFile: string,
  isForUnit: boolean,
) {
  const shown = { ...settings };
  const secrets = (['apiKey', 'apiToken'] as const).flatMap((key) => {
    const secret = settings.service[key];
    const ofFile = `service.${key}File`;
    if (secret === undefined || (!isForUnit && settingValue(settings, ofFile) !== undefined)) return [];
    const beside = join(dirname(configFile), `${parse(configFile).name}.${kebabName(key)}`);
    setValue(shown, ofFile, isForUnit ? undefined : beside);
    const path = isForUnit ? CREDENTIALS + kebabName(`service.${key}`) : beside;
    return [{ path, text: `${secret.revealAll().join('\n')}\n`, isSecret: true }];
  });
  const lines = INIT_FLAGS.reads.flatMap((name) => {
    const value = settingValue(shown, name);
    const comment = settingsByName.get(name)?.description.replaceAll('`', '') ?? '';
    return value === undefined
      ? []
      : [`${name.replace(/^service\./, '  ')}: ${inlineYaml(value)} # ${comment}\n`];
  });
  return [{ path: configFile, text: `service:\n${lines.join('')}`, isSecret: false }, ...secrets];
}
