import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';

import { systemCode } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { nearest } from '../lib/text/nearest.ts';
import { hasPassword } from './addresses.ts';
import {
  CONFIG_VARIABLE,
  fileSettingOf,
  kebabName,
  settingDescriptors,
  settingsByName,
  setValue,
  VARIABLE_PREFIX,
  type SettingDescriptor,
} from './descriptors.ts';
import type { Need, Setting } from './kinds.ts';
import { DEFAULT_SOURCE, quote, settingsError, type SettingProblem, type SettingSource } from './problems.ts';
import { removalMessage, removedSettings } from './removed-settings.ts';
import type { NeedsOf, SettingsFor } from './schema.ts';

/** A setting's value as its source spells it: texts for a list, one text for everything else; a command is a JSON list. */
export interface Given {
  readonly value: string | readonly string[];
  readonly source: SettingSource;
  /** The base folder for a relative path. */
  readonly base: string;
}

/** The settings of one source: values by dotted name, and the problems of the source. */
export class Layer {
  readonly values = new Map<string, Given>();
  readonly problems: SettingProblem[] = [];
  /** False if the source could not be read as a whole, so that a missing setting may be in it. */
  isComplete = true;

  /** Adds a problem, once if several rules report the same for one place. */
  refuse(setting: string | undefined, source: SettingSource | undefined, message: string): void {
    const isKnown = this.problems.some(
      (known) =>
        known.setting === setting && known.source?.detail === source?.detail && known.message === message,
    );
    if (!isKnown) this.problems.push({ setting, source, message });
  }
}

/** The defaults of all settings. */
const defaults = new Layer();
for (const { name, default: value } of settingDescriptors) {
  if (value === undefined) continue;
  const text = typeof value === 'object' ? value : String(value);
  defaults.values.set(name, { value: text, source: DEFAULT_SOURCE, base: '/' });
}

/** The source of each setting, by dotted name. */
export type SettingSources = Readonly<Record<string, SettingSource>>;

/** The settings, and where each came from. */
export interface Resolution<T extends readonly Need[]> {
  readonly settings: SettingsFor<NeedsOf<T>>;
  readonly sources: SettingSources;
}

const byVariable: ReadonlyMap<string, SettingDescriptor> = new Map(
  settingDescriptors.map((descriptor) => [descriptor.environmentVariable, descriptor]),
);

/**
 * The variables that Kubernetes puts into the environment of every container beside a service named `workbook-mirror`
 * (kubernetes.io, "Accessing the Service", environment variables). No setting has such a name.
 */
const SERVICE_LINK = /^WORKBOOK_MIRROR_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_[A-Z0-9_]+)?)$/;

/** The settings in environment variables. */
export function environmentLayer(env: Readonly<Record<string, string | undefined>>, base: string): Layer {
  const layer = new Layer();
  for (const [variable, text] of Object.entries(env)) {
    if (text === undefined || !variable.startsWith(VARIABLE_PREFIX) || variable === CONFIG_VARIABLE) continue;
    const source: SettingSource = { kind: 'environment', detail: variable };
    const descriptor = byVariable.get(variable);
    const removed = removedSettings.find(({ environmentVariable }) => environmentVariable === variable);
    if (descriptor !== undefined) {
      const value = descriptor.kind === 'list' ? splitList(text) : text;
      layer.values.set(descriptor.name, { value, source, base });
    } else if (removed !== undefined) {
      layer.refuse(removed.name, source, removed.message);
    } else if (!SERVICE_LINK.test(variable)) {
      const near = nearest(variable, [...byVariable.keys(), CONFIG_VARIABLE]) ?? '';
      layer.refuse(undefined, source, `unknown variable; the nearest known one is ${near}`);
    }
  }
  return layer;
}

/** The settings in flags, by their dotted names: of settings that have a flag, and of removed ones. */
export function flagLayer(flags: Readonly<Record<string, string | readonly string[]>>, base: string): Layer {
  const layer = new Layer();
  for (const [name, given] of Object.entries(flags)) {
    const descriptor = settingsByName.get(name);
    const source: SettingSource = { kind: 'flag', detail: descriptor?.flag ?? '' };
    const texts = typeof given === 'string' ? [given] : given;
    const [text, ...more] = texts;
    if (descriptor === undefined) {
      layer.refuse(name, undefined, removalMessage(name) ?? 'unknown setting');
    } else if (descriptor.kind === 'list') {
      layer.values.set(name, { value: texts.flatMap(splitList), source, base });
    } else if (text === undefined || more.length > 0) {
      layer.refuse(name, source, 'expected the flag once, with one value');
    } else if (name === 'state' && hasPassword(text)) {
      const message = `expected no password in a flag, because everybody on the machine can read it; use the file or the variable ${descriptor.environmentVariable}`;
      layer.refuse(name, source, message);
    } else layer.values.set(name, { value: text, source, base });
  }
  return layer;
}

/**
 * The secrets that are systemd credentials (systemd.exec(5), "Credentials"); each becomes a file in the layers, as if `XFile` named it.
 * @param directory the folder of the credentials; empty for none
 */
export function credentialLayer(directory = ''): Layer {
  const layer = new Layer();
  const secrets = settingDescriptors.filter(({ secret }) => secret);
  for (const { name } of directory === '' ? [] : [...secrets, ...removedSettings]) {
    const path = join(directory, kebabName(name));
    if (!existsSync(path)) continue;
    const source: SettingSource = { kind: 'credential', detail: path };
    const file = fileSettingOf(name);
    if (file !== undefined) layer.values.set(file.name, { value: path, source, base: '/' });
    else layer.refuse(name, source, removalMessage(name) ?? '');
  }
  return layer;
}

/** Splits at commas, except within the braces of a pattern, which may hold braces, too; unpaired braces are ordinary characters. */
function splitList(text: string): string[] {
  if (text.trim() === '') return [];
  const marks = { '{': '\u0001', ',': '\u0002', '}': '\u0003' };
  const innermost = /\{[^{}]*\}/g;
  let marked = text;
  while (marked.search(innermost) >= 0)
    marked = marked.replaceAll(innermost, (group) => replaced(group, Object.entries(marks)));
  const unmarked = Object.entries(marks).map(([character, mark]) => [mark, character] as const);
  return marked.split(',').map((entry) => replaced(entry, unmarked).trim());
}

function replaced(text: string, pairs: readonly (readonly [from: string, to: string])[]): string {
  return pairs.reduce((rest, [from, to]) => rest.replaceAll(from, to), text);
}

/**
 * Takes each setting from the strongest layer that has it, and validates them all.
 *
 * @param layers the strongest first
 * @param needs the required parts; none is reported as missing if a layer is incomplete
 * @param adviceOn returns sentences for people, about the missing settings
 * @throws MirrorError `settings.invalid`, with all problems
 */
export function resolveSettings<const T extends readonly Need[]>(
  layers: readonly Layer[],
  needs: T,
  adviceOn: (missing: readonly SettingProblem[]) => string = () => '',
): Resolution<T> {
  const whole = new Layer();
  whole.problems.push(...layers.flatMap(({ problems }) => problems));
  const { settings, sources } = valuesOf([...layers, defaults], whole, needs.includes('service'));
  const { problems } = whole;
  const known = problems.length;
  if (layers.every(({ isComplete }) => isComplete)) refuseMissing(whole, needs, sources);
  if (problems.length > 0)
    throw settingsError(problems, problems.length > known ? adviceOn(problems.slice(known)) : '');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nothing is wrong or missing
  return { settings: settings as Resolution<T>['settings'], sources };
}

/** The value of each setting, or the file of a secret, from the strongest layer that has either. A layer with both is a problem. */
function valuesOf(layers: readonly Layer[], whole: Layer, isStrict: boolean) {
  const settings = {};
  const sources: Record<string, SettingSource> = {};
  for (const setting of settingDescriptors) {
    const name = setting.fileOf ?? setting.name;
    const fileName = fileSettingOf(name)?.name ?? '';
    const layer = layers.find(({ values }) => values.has(name) || values.has(fileName));
    const [own, file] = [layer?.values.get(name), layer?.values.get(fileName)];
    if (own !== undefined && file !== undefined) {
      const message = `expected only one of ${name} (${own.source.detail}) and ${fileName} (${file.source.detail})`;
      whole.refuse(name, undefined, message);
    }
    const fromFile = own === undefined ? file : undefined;
    const given = setting.fileOf === undefined ? own : fromFile;
    sources[setting.name] = (given ?? fromFile)?.source ?? DEFAULT_SOURCE;
    if (given !== undefined) takeValue(settings, setting, given, whole, isStrict);
  }
  return { settings, sources };
}

/** Secrets that a command uses only if it also needs the service, or that it can do without. */
const OF_DAEMON = /^(?:service|http|hooks)\./;

/**
 * Reads the value of a setting; with the file of a secret, also the secret. A wrong one becomes a problem.
 * @param isStrict whether the secrets of the daemon must be readable: another user may read the mirror without them
 */
function takeValue(
  settings: object,
  setting: SettingDescriptor,
  given: Given,
  whole: Layer,
  isStrict: boolean,
): void {
  const { name, fileOf = '', kind, parse, emptyProblem } = setting;
  const found = [given.value].flat().flatMap((text) => read(whole, setting, given, text, parse));
  if (given.value.length === 0 && emptyProblem !== undefined) whole.refuse(name, given.source, emptyProblem);
  setValue(settings, name, kind === 'list' ? found.flat() : found[0]);
  const [path] = found;
  const parseFile = settingsByName.get(fileOf)?.parseFile;
  if (typeof path !== 'string' || parseFile === undefined) return;
  if (isStrict || !OF_DAEMON.test(fileOf) || !isForbidden(path))
    setValue(settings, fileOf, read(whole, setting, given, path, parseFile)[0]);
}

/** Whether this user may not read a file. */
function isForbidden(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return false;
  } catch (error) {
    return systemCode(error) === 'EACCES';
  }
}

/** Reads one value. @returns a list with it; an empty one for a wrong text, which becomes a problem */
function read(
  whole: Layer,
  setting: SettingDescriptor,
  { source, base }: Given,
  text: string,
  parse: Setting['parse'],
): readonly unknown[] {
  try {
    return [parse(text, base)];
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    const shown = isPrintable(setting, text) ? `, got ${quote(text)}` : '';
    whole.refuse(setting.name, source, error.message + shown);
    return [];
  }
}

/** Whether a rejected value may be shown: an address may hold a password, even in a wrong place. */
function isPrintable({ kind, fileOf }: SettingDescriptor, text: string): boolean {
  // Users sometimes give a secret itself in place of its file; the arguments of a command may be anything.
  if (kind === 'secret' || kind === 'command' || fileOf !== undefined) return false;
  if (kind !== 'address') return !/:\/\/[^]*@/.test(text);
  return /^(?:[a-z]+:\/\/)?[\w./-]*$/i.test(text);
}

function refuseMissing(whole: Layer, needs: readonly Need[], sources: SettingSources): void {
  for (const { name, need, flag, environmentVariable } of settingDescriptors) {
    if (need === undefined || !needs.includes(need) || sources[name] !== DEFAULT_SOURCE) continue;
    const file = fileSettingOf(name);
    if (whole.problems.some(({ setting = '' }) => setting === name || setting === file?.name)) continue;
    const ways =
      file === undefined
        ? `${name} in the settings file, the variable ${environmentVariable}, or the flag ${flag ?? ''}`
        : `${name} or ${file.name} in the settings file, the variable ${environmentVariable} or` +
          ` ${file.environmentVariable}, the flag ${file.flag ?? ''}, or a systemd credential named ${kebabName(name)}`;
    whole.refuse(name, undefined, `missing; set ${ways}`);
  }
}
