import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { MirrorError } from '../lib/errors/errors.ts';
import { nearest } from '../lib/text/nearest.ts';
import { hasPassword } from './addresses.ts';
import {
  CONFIG_VARIABLE,
  fileSettingOf,
  kebabName,
  partsOf,
  sectionDescriptors,
  settingDescriptors,
  settingsByName,
  VARIABLE_PREFIX,
  type SettingDescriptor,
} from './descriptors.ts';
import { type Need, pathProblem } from './kinds.ts';
import { DEFAULT_SOURCE, quote, type SettingProblem, SettingsError, type SettingSource } from './problems.ts';
import { removedSetting, removedSettings } from './removed-settings.ts';
import { settingsSchema, type NeedsOf, type Settings, type SettingsFor } from './schema.ts';
import { fileSecret, inlineSecret } from './secret.ts';

/** A setting's value as its source spells it: texts for a list, one text for everything else. */
export interface Given {
  readonly value: string | readonly string[];
  readonly source: SettingSource;
  /** The base folder for a relative path. */
  readonly base: string;
}

type Values = ReadonlyMap<string, Given>;

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

/** The settings in flags, by their dotted names. */
export function flagLayer(flags: Readonly<Record<string, string | readonly string[]>>, base: string): Layer {
  const layer = new Layer();
  for (const [name, given] of Object.entries(flags)) {
    const descriptor = settingsByName.get(name);
    const source: SettingSource = { kind: 'flag', detail: descriptor?.flag ?? '' };
    const texts = typeof given === 'string' ? [given] : given;
    const [text, ...more] = texts;
    if (descriptor?.flag === undefined) {
      layer.refuse(name, undefined, noFlag(name, descriptor));
    } else if (descriptor.kind === 'list') {
      layer.values.set(name, { value: texts.flatMap(splitList), source, base });
    } else if (text === undefined || more.length > 0) {
      layer.refuse(name, source, 'expected the flag once, with one value');
    } else {
      layer.values.set(name, { value: text, source, base });
      if (name === 'state' && hasPassword(text)) {
        const message = `expected no password in a flag, ${READABLE}; use the file or the variable ${descriptor.environmentVariable}`;
        layer.refuse(name, source, message);
      }
    }
  }
  return layer;
}

const READABLE = 'because everybody on the machine can read it';

function noFlag(name: string, descriptor: SettingDescriptor | undefined): string {
  if (descriptor === undefined) {
    const known = settingDescriptors.filter(({ flag }) => flag !== undefined).map((each) => each.name);
    const near = nearest(name, known) ?? '';
    return removedSetting(name)?.message ?? `unknown setting; the nearest known one is ${near}`;
  }
  const { environmentVariable } = descriptor;
  return `expected no flag, ${READABLE}; use the variable ${environmentVariable} or the flag ${fileSettingOf(name)?.flag ?? ''}`;
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
    else layer.refuse(name, source, removedSetting(name)?.message ?? '');
  }
  return layer;
}

/** Splits at commas, except within the braces of a pattern. */
function splitList(text: string): string[] {
  if (text.trim() === '') return [];
  const entries = [''];
  let depth = 0;
  for (const character of text) {
    if (character === '{') depth += 1;
    if (character === '}') depth -= 1;
    if (character === ',' && depth === 0) entries.push('');
    else entries.push(`${entries.pop() ?? ''}${character}`);
    if (depth < 0) break;
  }
  // Braces that do not pair up are ordinary characters.
  return (depth === 0 ? entries : text.split(',')).map((entry) => entry.trim());
}

/**
 * Takes each setting from the strongest layer that has it, and validates them all.
 *
 * @param layers the strongest first
 * @param needs the required parts; none is reported as missing if a layer is incomplete
 * @param adviceOn returns sentences for people, about the missing settings
 * @throws SettingsError `settings.invalid`, with all problems
 */
export function resolveSettings<const T extends readonly Need[]>(
  layers: readonly Layer[],
  needs: T,
  adviceOn: (missing: readonly SettingProblem[]) => string = () => '',
): Resolution<T> {
  const whole = strongest(layers);
  const { values, problems } = whole;
  const { data, error } = settingsSchema.safeParse(schemaInput(whole));
  for (const { path, message } of error?.issues ?? []) refuseValue(whole, path, message);
  const known = problems.length;
  if (layers.every(({ isComplete }) => isComplete)) refuseMissing(whole, needs);
  if (data === undefined || problems.length > 0)
    throw new SettingsError(problems, problems.length > known ? adviceOn(problems.slice(known)) : '');
  if (!hasNeeds(data, needs)) throw new TypeError('a setting is missing that was not missed');
  return { settings: data, sources: sourcesOf(values) };
}

function hasNeeds<T extends readonly Need[]>(
  settings: Settings,
  needs: T,
): settings is SettingsFor<NeedsOf<T>> {
  const { service, directory } = settings;
  const isAsked = service.baseUrl !== undefined && service.apiKey !== undefined;
  return needs.every((need) => (need === 'service' ? isAsked : directory !== undefined));
}

/** All problems, and the given values, each from the strongest layer that has it; at most one of a secret and its file. */
function strongest(layers: readonly Layer[]): Layer {
  const whole = new Layer();
  whole.problems.push(...layers.flatMap(({ problems }) => problems));
  for (const { name, fileOf } of settingDescriptors) {
    // A secret's file is decided on together with the secret.
    if (fileOf !== undefined) continue;
    const fileName = fileSettingOf(name)?.name ?? '';
    const layer = layers.find((each) => each.values.has(name) || each.values.has(fileName));
    const [own, file] = [layer?.values.get(name), layer?.values.get(fileName)];
    if (own !== undefined && file !== undefined) {
      const message = `expected only one of ${name} (${own.source.detail}) and ${fileName} (${file.source.detail})`;
      whole.refuse(name, undefined, message);
    }
    if (own !== undefined) whole.values.set(name, own);
    else if (file !== undefined) whole.values.set(fileName, file);
  }
  return whole;
}

/** Makes the schema's input: numbers from digits, absolute paths, secrets. */
function schemaInput(whole: Layer): Readonly<Record<string, unknown>> {
  const input = Object.fromEntries(sectionDescriptors.map(({ name }): [string, object] => [name, {}]));
  const put = (name: string, value: unknown): void => {
    const [section, key] = partsOf(name);
    Reflect.set(input[section] ?? input, key, value);
  };
  for (const [name, given] of whole.values) {
    const descriptor = settingsByName.get(name);
    if (descriptor === undefined) continue;
    const value = inputOf(descriptor, given);
    const { secret, holdsSeveral, fileOf } = descriptor;
    try {
      if (secret) put(name, inlineSecret(String(value), holdsSeveral));
      else put(name, value);
      if (fileOf !== undefined && typeof value === 'string' && pathProblem(value) === undefined)
        put(fileOf, fileSecret(value, settingsByName.get(fileOf)?.holdsSeveral));
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      whole.refuse(name, given.source, error.message);
    }
  }
  return input;
}

function inputOf({ kind }: SettingDescriptor, { value, base }: Given): unknown {
  if (kind === 'command')
    return withAbsoluteProgram(typeof value === 'string' ? commandWords(value) : value, base);
  if (typeof value !== 'string') return value;
  if (kind === 'integer' && /^-?\d+$/.test(value)) return Number(value);
  if (kind === 'flag' && (value === 'true' || value === 'false')) return value === 'true';
  if (kind === 'path' && pathProblem(value) === undefined) return resolve(base, value);
  return value;
}

/** A command in a variable or a flag: a JSON list, or one word; the schema refuses anything else. */
function commandWords(text: string): unknown {
  const trimmed = text.trim();
  if (!trimmed.startsWith('[')) return /\s/.test(trimmed) ? text : [trimmed];
  try {
    return JSON.parse(trimmed);
  } catch {
    return text;
  }
}

/**
 * Makes the path of a program absolute: commands run in folders of the mirror, where a relative path would lead to files
 * from the service.
 */
function withAbsoluteProgram(words: unknown, base: string): unknown {
  const list: readonly unknown[] = Array.isArray(words) ? words : [];
  const [program, ...rest] = list;
  return typeof program === 'string' && program.includes('/') ? [resolve(base, program), ...rest] : words;
}

/** Adds a problem that the schema found in a value, with the value itself if it may be shown. */
function refuseValue(whole: Layer, path: readonly PropertyKey[], message: string): void {
  const setting = path.filter((part) => typeof part === 'string').join('.');
  const given = givenFor(setting, whole.values);
  const index = path.find((part) => typeof part === 'number');
  const value = typeof index === 'number' ? given?.value[index] : given?.value;
  const isShown = typeof value === 'string' && isPrintable(setting, value);
  whole.refuse(setting, given?.source, isShown ? `${message}, got ${quote(value)}` : message);
}

/** The value of a setting; for a secret, its file's value if a file was given. */
function givenFor(name: string, values: Values): Given | undefined {
  return values.get(name) ?? values.get(fileSettingOf(name)?.name ?? '');
}

/** Whether a rejected value may be shown: an address may hold a password, even in a wrong place. */
function isPrintable(setting: string, value: string): boolean {
  const descriptor = settingsByName.get(setting);
  // Users sometimes give a secret itself in place of its file; the arguments of a command may be anything.
  if (descriptor === undefined || descriptor.secret || descriptor.fileOf !== undefined) return false;
  if (descriptor.kind === 'command') return false;
  if (descriptor.kind !== 'address') return !/:\/\/[^]*@/.test(value);
  return /^(?:[a-z]+:\/\/)?[\w./-]*$/i.test(value);
}

function refuseMissing(whole: Layer, needs: readonly Need[]): void {
  for (const { name, need, flag, environmentVariable } of settingDescriptors) {
    if (need === undefined || !needs.includes(need)) continue;
    const file = fileSettingOf(name);
    if (givenFor(name, whole.values) !== undefined) continue;
    if (whole.problems.some(({ setting = '' }) => setting === name || setting === file?.name)) continue;
    const ways =
      file === undefined
        ? `${name} in the settings file, the variable ${environmentVariable}, or the flag ${flag ?? ''}`
        : `${name} or ${file.name} in the settings file, the variable ${environmentVariable} or` +
          ` ${file.environmentVariable}, the flag ${file.flag ?? ''}, or a systemd credential named ${kebabName(name)}`;
    whole.refuse(name, undefined, `missing; set ${ways}`);
  }
}

function sourcesOf(values: Values): SettingSources {
  return Object.fromEntries(
    settingDescriptors.map(({ name }) => [name, givenFor(name, values)?.source ?? DEFAULT_SOURCE]),
  );
}
