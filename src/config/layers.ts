import { nearest } from '../lib/text/nearest.ts';
import {
  CONFIG_VARIABLE,
  fileSettingOf,
  settingDescriptors,
  settingsByName,
  VARIABLE_PREFIX,
  type SettingDescriptor,
} from './descriptors.ts';
import type { SettingProblem, SettingSource } from './problems.ts';
import { removedSetting, removedSettings } from './removed-settings.ts';

/** A setting's value as its source spells it: texts for a list, one text for everything else. */
export interface Given {
  readonly value: string | readonly string[];
  readonly source: SettingSource;
  /** The folder at which a relative path starts. */
  readonly base: string;
}

/** The settings of one source: values by dotted name, and the problems of the source. */
export interface Layer {
  readonly values: ReadonlyMap<string, Given>;
  readonly problems: readonly SettingProblem[];
}

const byVariable: ReadonlyMap<string, SettingDescriptor> = new Map(
  settingDescriptors.map((descriptor) => [descriptor.environmentVariable, descriptor]),
);

/**
 * The variables that Kubernetes puts into the environment of every container beside a service named `workbook-mirror`
 * (kubernetes.io, "Accessing the Service", environment variables).
 */
const SERVICE_LINK =
  /^WORKBOOK_MIRROR_(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$/;

/** The settings in environment variables. */
export function environmentLayer(env: Readonly<Record<string, string | undefined>>, base: string): Layer {
  const values = new Map<string, Given>();
  const problems: SettingProblem[] = [];
  for (const [variable, text] of Object.entries(env)) {
    if (text === undefined || !variable.startsWith(VARIABLE_PREFIX) || variable === CONFIG_VARIABLE) continue;
    const source: SettingSource = { kind: 'environment', detail: variable };
    const descriptor = byVariable.get(variable);
    if (descriptor === undefined) {
      problems.push(unknownVariable(variable, source));
    } else {
      values.set(descriptor.name, {
        value: descriptor.kind === 'list' ? splitList(text) : text,
        source,
        base,
      });
    }
  }
  return { values, problems };
}

/** The settings in flags, by their dotted names. */
export function flagLayer(flags: Readonly<Record<string, string | readonly string[]>>, base: string): Layer {
  const values = new Map<string, Given>();
  const problems: SettingProblem[] = [];
  for (const [name, given] of Object.entries(flags)) {
    const descriptor = settingsByName.get(name);
    const source: SettingSource = { kind: 'flag', detail: descriptor?.flag ?? '' };
    const texts = typeof given === 'string' ? [given] : given;
    const [text, ...more] = texts;
    if (descriptor?.flag === undefined) {
      problems.push({ setting: name, source: undefined, message: noFlag(name, descriptor) });
    } else if (descriptor.kind === 'list') {
      values.set(name, { value: texts.flatMap(splitList), source, base });
    } else if (text === undefined || more.length > 0) {
      problems.push({ setting: name, source, message: 'expected the flag once, with one value' });
    } else {
      values.set(name, { value: text, source, base });
    }
  }
  return { values, problems };
}

/** The secrets that are systemd credentials; for the layers each is a file, as if `XFile` named it. */
export function credentialLayer(paths: ReadonlyMap<string, string>): Layer {
  const values = new Map<string, Given>();
  for (const { name, fileOf } of settingDescriptors) {
    const path = fileOf === undefined ? undefined : paths.get(fileOf);
    if (path !== undefined) {
      values.set(name, { value: path, source: { kind: 'credential', detail: path }, base: '/' });
    }
  }
  const problems = removedSettings.flatMap(({ name, message }): SettingProblem[] => {
    const path = paths.get(name);
    const source = { kind: 'credential', detail: path ?? '' } as const;
    return path === undefined ? [] : [{ setting: name, source, message }];
  });
  return { values, problems };
}

/** Splits at commas, except within braces, which belong to a pattern. */
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

function unknownVariable(variable: string, source: SettingSource): SettingProblem {
  const removed = removedSettings.find(({ environmentVariable }) => environmentVariable === variable);
  if (removed !== undefined) return { setting: removed.name, source, message: removed.message };
  const near = nearest(variable, [...byVariable.keys(), CONFIG_VARIABLE]) ?? '';
  const link = SERVICE_LINK.test(variable)
    ? '; Kubernetes sets it for a service named workbook-mirror, unless the pod has enableServiceLinks: false'
    : '';
  const message = `unknown variable; the nearest known one is ${near}${link}`;
  return { setting: undefined, source, message };
}

function noFlag(name: string, descriptor: SettingDescriptor | undefined): string {
  if (descriptor === undefined) {
    const removed = removedSetting(name);
    if (removed !== undefined) return removed.message;
    const known = settingDescriptors.filter(({ flag }) => flag !== undefined).map((known) => known.name);
    return `unknown setting; the nearest known one is ${nearest(name, known) ?? ''}`;
  }
  return (
    'expected no flag, because everybody on the machine can read it;' +
    ` use the variable ${descriptor.environmentVariable} or the flag ${fileSettingOf(name)?.flag ?? ''}`
  );
}
