import { resolve } from 'node:path';

import { MirrorError } from '../lib/errors/errors.ts';
import {
  fileSettingOf,
  sectionDescriptors,
  settingDescriptors,
  settingsByName,
  type SettingDescriptor,
} from './descriptors.ts';
import { pathProblem } from './kinds.ts';
import type { Given, Layer } from './layers.ts';
import type { SettingProblem } from './problems.ts';
import { inlineSecret, oneSecret, type Secret, type SecretParser, severalKeys } from './secret.ts';

/** The given values by dotted name, each from the strongest layer that has it. Of a secret and its file, at most one. */
export type MergedValues = ReadonlyMap<string, Given>;

/**
 * Takes each setting from the strongest layer that has it.
 *
 * @param layers the strongest first
 */
export function mergeLayers(layers: readonly Layer[]): {
  readonly values: MergedValues;
  readonly problems: readonly SettingProblem[];
} {
  const merged = new Map<string, Given>();
  const problems: SettingProblem[] = [];
  for (const { name, fileOf } of settingDescriptors) {
    // A secret's file is decided upon together with the secret.
    if (fileOf !== undefined) continue;
    const fileName = fileSettingOf(name)?.name;
    for (const { values } of layers) {
      const own = values.get(name);
      const file = fileName === undefined ? undefined : values.get(fileName);
      if (own !== undefined && file !== undefined) {
        const message = `expected only one of ${name} (${own.source.detail}) and ${fileName ?? ''} (${file.source.detail})`;
        problems.push({ setting: name, source: undefined, message });
      }
      if (own !== undefined) merged.set(name, own);
      else if (file !== undefined && fileName !== undefined) merged.set(fileName, file);
      if (own !== undefined || file !== undefined) break;
    }
  }
  return { values: merged, problems };
}

/**
 * Makes the schema's input from merged values: numbers from digits, absolute paths, secrets.
 *
 * @param openSecret opens a file-backed secret, or throws a MirrorError that says why not
 */
export function schemaInput(
  values: MergedValues,
  openSecret: (path: string, parse: SecretParser) => Secret,
): { readonly input: Readonly<Record<string, unknown>>; readonly problems: readonly SettingProblem[] } {
  const input: Record<string, unknown> = {};
  const sections = new Map([['', input]]);
  const problems: SettingProblem[] = [];
  const put = (name: string, value: unknown): void => {
    const dot = name.lastIndexOf('.');
    const members = sections.get(name.slice(0, Math.max(0, dot)));
    if (members !== undefined) members[name.slice(dot + 1)] = value;
  };
  // A section comes before those within it.
  for (const { name } of sectionDescriptors) {
    const members: Record<string, unknown> = {};
    put(name, members);
    sections.set(name, members);
  }
  const putSecret = (name: string, given: Given, secretName: string, open: () => Secret): void => {
    try {
      put(secretName, open());
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      problems.push({ setting: name, source: given.source, message: error.message });
    }
  };
  for (const [name, given] of values) {
    const descriptor = settingsByName.get(name);
    if (descriptor === undefined) continue;
    const value = inputOf(descriptor, given);
    if (descriptor.secret) {
      putSecret(name, given, name, () => inlineSecret(String(value), parserOf(descriptor)));
    } else put(name, value);
    if (descriptor.fileOf !== undefined && typeof value === 'string' && pathProblem(value) === undefined) {
      const parse = parserOf(settingsByName.get(descriptor.fileOf));
      putSecret(name, given, descriptor.fileOf, () => openSecret(value, parse));
    }
  }
  return { input, problems };
}

function parserOf(secret: SettingDescriptor | undefined): SecretParser {
  return secret?.holdsSeveral === true ? severalKeys : oneSecret;
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

/** A command in a variable or a flag: a JSON list, or one word; anything else is left for the schema to refuse. */
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
 * Makes the path of a program absolute: commands run in folders of the mirror, where a relative one would lead to what the
 * service sent.
 */
function withAbsoluteProgram(words: unknown, base: string): unknown {
  if (!isList(words)) return words;
  const [program, ...rest] = words;
  return typeof program === 'string' && program.includes('/') ? [resolve(base, program), ...rest] : words;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}
