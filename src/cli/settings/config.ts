import type { Command } from 'commander';

import { fileSettingOf, settingDescriptors } from '../../config/descriptors.ts';
import { exposedSecretFiles } from '../../config/changes.ts';
import { effectiveSettings, renderEffective } from '../../config/render.ts';
import type { LoadedSettings } from '../../config/load.ts';
import { renderJsonSchema } from '../../config/render.ts';
import type { SettingSources } from '../../config/layers.ts';
import { sharingSetting } from '../../config/changes.ts';
import { checkCommands } from '../../app/command-hooks.ts';
import { nextRunsMs } from '../../app/schedule.ts';
import { type LockReach, locksIn, type MountLocks, mountText } from '../../lib/disk/lock-reach.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { limitsOfDirectory } from '../../mirror/store/probes.ts';
import { counted } from '../../lib/text/humanize.ts';
import {
  escapedJson,
  escapedLines,
  joinLines,
  say,
  type TerminalText,
} from '../../lib/text/terminal-text.ts';

import { requiredServeDirectory } from '../../server/start/directory.ts';
import type { Outcome } from '../frame/output.ts';
import { describeFindings, type Finding, well } from './findings.ts';
import { checkOnline } from './online-check.ts';
import { settingsOf } from './settings-flags.ts';

type Loaded = Pick<LoadedSettings<[]>, 'settings' | 'sources' | 'configFile'>;

/** `config check` */
export async function runConfigCheck(command: Command): Promise<Outcome> {
  const options: { for?: 'run' | 'serve'; online?: true; json?: true } = command.opts();
  const { for: checked, online, json } = options;
  if (json === true && online !== true)
    throw new MirrorError('usage.invalid', 'config check --json is for the findings of --online: give both.');
  if (checked === 'serve') {
    const loaded = settingsOf(command, []);
    requiredServeDirectory(loaded.settings.serve);
    return { text: () => describeCheck(loaded, 'serve') };
  }
  const loaded = settingsOf(command, ['service', 'directory']);
  if (online === true) return checkAll(loaded);
  await checkCommands(loaded.settings);
  const { directory, publish, archive } = loaded.settings;
  const wants = { publish, nameTwins: archive.nameTwins };
  const limits = (await limitsOfDirectory(directory, wants)) ?? ['is tried out when the program starts'];
  const lines = [
    describeCheck(loaded),
    describeSchedule(loaded.settings),
    ...equalKeys(loaded.settings),
    ...describeLocks(directory, await locksIn(directory), sharingSetting(loaded.settings)),
    ...limits.map((limit) => say`directory: its file system ${limit}.`),
  ];
  return { text: () => joinLines(lines) };
}

/** `config check --online` */
async function checkAll(loaded: LoadedSettings<readonly ['service', 'directory']>): Promise<Outcome> {
  const { settings } = loaded;
  const warnings = [...exposedFiles(loaded), ...equalKeys(settings)].map((text): Finding => {
    const finding = String(text).replace('Warning: ', '');
    return { verdict: 'warning', subject: 'secrets', finding, whatToDo: null };
  });
  const schedule = well('schedule', String(describeSchedule(settings)).replace('schedule: ', ''));
  // The user of the daemon owns the directory.
  await becomeOwnerOf(settings.directory);
  const data = [...warnings, schedule, ...(await checkOnline(loaded))];
  const isWrong = data.some(({ verdict }) => verdict === 'error');
  return {
    data,
    text: () => describeFindings(data),
    exitCode: isWrong ? EXIT_CODES.incomplete : EXIT_CODES.ok,
  };
}

/** `config show` */
export function runConfigShow(command: Command): Promise<Outcome> {
  const { settings, sources } = settingsOf(command, []);
  return Promise.resolve({
    data: effectiveSettings(settings, sources),
    text: () => escapedLines(renderEffective(settings, sources)),
  });
}

/** `config schema` */
export function runConfigSchema(): Promise<Outcome> {
  return Promise.resolve({ text: () => escapedJson(renderJsonSchema()) });
}

/**
 * Says that the settings are good, and their source, and which files of secrets should have another mode.
 * @param command the command they are good for; left out for `run`
 */
export function describeCheck({ settings, sources, configFile }: Loaded, command?: string): TerminalText {
  const given = Object.keys(sources).filter((name) => isGiven(sources, name)).length;
  const file = configFile === undefined ? 'no settings file was read' : `${configFile} was read`;
  const good = command === undefined ? 'good' : `good for ${command}`;
  const summary = say`The settings are ${good}: ${counted(given, 'setting')} given, the others at their defaults; ${file}.`;
  return joinLines([summary, ...exposedFiles({ settings, sources, configFile })]);
}

function exposedFiles({ settings, sources, configFile }: Loaded): TerminalText[] {
  const ownFile = configFile === undefined || !holdsSecret(sources) ? [] : [configFile];
  return exposedSecretFiles(settings, ownFile).map(exposed);
}

/** The passes shown for a schedule. */
const PASSES_SHOWN = 3;

/** Lists the next passes, which shows the meaning of the schedule. */
function describeSchedule({ schedule, timezone }: Loaded['settings']): TerminalText {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: timezone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
  const passes = nextRunsMs(schedule, timezone, PASSES_SHOWN).map((timeMs) => format.format(timeMs));
  return say`schedule: the next passes start at ${passes.join('; ')} (time zone ${timezone}).`;
}

/** Warns of one value for two secrets: the service shows an API key and an API token in two places. */
function equalKeys({ service: { apiKey, apiToken } }: Loaded['settings']): TerminalText[] {
  const tokens = apiToken?.revealAll() ?? [];
  if (apiKey?.revealAll().some((key) => tokens.includes(key)) !== true) return [];
  return [
    say`Warning: service.apiKey and service.apiToken have the same value, but the key and the token are two secrets.`,
  ];
}

const REACH_TEXTS: Readonly<Record<LockReach, string>> = {
  local: ', a file system of this machine alone',
  shared: '; other machines see its locks',
  'not-shared': '; other machines do not see its locks',
  unknown: '; it is unknown whether other machines see its locks',
};

/**
 * Names the file system of the directory, and warns if instances on several machines would not see each other's locks.
 * @param sharing the setting that makes several instances likely
 */
export function describeLocks(
  directory: string,
  locks: MountLocks | null,
  sharing: ReturnType<typeof sharingSetting>,
): TerminalText[] {
  if (locks === null) return [];
  const found = say`directory: ${directory} is on ${mountText(locks)}${REACH_TEXTS[locks.reach]}.`;
  if (sharing === null || locks.reach !== 'not-shared') return [found];
  return [found, say`Warning: ${sharing}: instances on two machines could work on one target at once.`];
}

function exposed(path: string): TerminalText {
  return say`Warning: every user of this machine can read ${path}, which holds a secret: give it to the user of the program, with mode 0400.`;
}

/** Whether the settings file itself holds a secret. */
function holdsSecret(sources: SettingSources): boolean {
  return settingDescriptors.some(
    ({ name, secret }) => secret && sources[name]?.kind === 'file' && isGiven(sources, name),
  );
}

/** Whether a setting was given. A secret in a file counts once, as the setting that names the file. */
function isGiven(sources: SettingSources, name: string): boolean {
  const kindOf = (each: string | undefined): string => sources[each ?? '']?.kind ?? 'default';
  return kindOf(name) !== 'default' && kindOf(fileSettingOf(name)?.name) === 'default';
}
