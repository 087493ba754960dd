import { resolve } from 'node:path';

import { validate } from 'node-cron';

import { formatDuration, formatSize, parseDuration, parseSize } from '../lib/text/units.ts';
import { invalidValue } from './problems.ts';
import { addressInPlaceOfKey, fileSecret, inlineSecret, type Secret } from './secret.ts';

/** A part of the settings that some commands require. */
export type Need = 'service' | 'directory';

/** The syntax of some settings. The messages of its errors describe valid values, and leave the rejected value out. */
export interface Kind<T> {
  readonly kind: 'text' | 'address' | 'secret' | 'path' | 'integer' | 'flag' | 'choice' | 'list' | 'command';
  /** The placeholder for the value in a command's help, e.g. `<duration>`. */
  readonly valueHint: string;
  readonly choices?: readonly string[];
  /** Why a list may not be empty; undefined if an empty one has a meaning. */
  readonly emptyProblem?: string;
  /** The values in the file, as JSON Schema. */
  readonly json: Readonly<Record<string, unknown>>;
  /**
   * Reads a text; for a list, the text of one entry.
   * @param base the folder where a relative path starts
   * @throws MirrorError
   */
  readonly parse: (text: string, base: string) => T;
  /** Reads a secret from the file at an absolute path. @throws MirrorError `settings.invalid` */
  readonly parseFile?: (path: string) => T;
  /** Formats a value as in the file; texts, numbers and lists need none. */
  spell?(this: void, value: unknown): string;
}

/** The metadata of one setting. */
interface OwnFacts {
  /** One line, for a table and a command's help; may hold Markdown code marks. `config.example.yaml` says more. */
  readonly description: string;
  /** The default as in the file; undefined if there is none. */
  readonly default?: Default;
  /** The default in words, for a setting without one. */
  readonly defaultText?: string;
  /** The commands that require it. */
  readonly need?: Need;
  /** Whether a change of it while the daemon runs waits for a restart. */
  readonly needsRestart?: true;
  /** The dotted name of the secret in its file: `service.apiKey` for `service.apiKeyFile`. */
  readonly fileOf?: string;
}

type Default = string | number | boolean | readonly string[];

/** One setting. Its names, its variable, its flag, the help and all tables derive from it. */
export interface Setting<T = unknown> extends OwnFacts, Kind<T> {}

/** Makes a setting of a kind, with or without a default. */
export function setting<T>(kind: Kind<T>, facts: OwnFacts & { readonly default: Default }): Setting<T>;
export function setting<T>(kind: Kind<T>, facts: OwnFacts): Setting<T | undefined>;
export function setting(kind: Kind<unknown>, facts: OwnFacts): Setting {
  return { ...facts, ...kind };
}

const TEXT = { type: 'string' };

/** Makes a kind; its values are texts in the file by default. */
export function kindOf<T>(
  valueHint: string,
  parse: Kind<T>['parse'],
  more: Partial<Kind<T>> & { readonly spell?: (value: T) => string } = {},
): Kind<T> {
  return { kind: 'text', json: TEXT, valueHint, parse, ...more };
}

/** Also takes `off`, which is null once parsed. */
export function orOff<T>({ valueHint, parse, spell = String, ...kind }: Kind<T>): Kind<T | null> {
  return {
    ...kind,
    valueHint: valueHint.replace('>', '|off>'),
    parse: (text, base) => (text === 'off' ? null : parse(text, base)),
    spell: (value) => (value === null ? 'off' : spell(value)),
  };
}

/** The longest timer in whole days: see `LONGEST_TIMER_MS` in lib/time/back-off.ts. */
const LONGEST_TIMER = '24d';

/** A duration, in milliseconds once parsed. */
export function duration(min = '0s', max = LONGEST_TIMER): Kind<number> {
  const [least, most] = [parseDuration(min), parseDuration(max)];
  const range = `from ${formatDuration(least)} to ${formatDuration(most)}`;
  const parse = (text: string): number => {
    const milliseconds = parseDuration(text);
    if (milliseconds < least || milliseconds > most) throw invalidValue(`expected a duration ${range}`);
    return milliseconds;
  };
  return kindOf('<duration>', parse, { spell: formatDuration });
}

function parseLargeSize(text: string): number {
  const bytes = parseSize(text);
  if (bytes < 1000) throw invalidValue('expected a size of at least 1 kB');
  return bytes;
}

/** A size of at least 1 kB, in bytes once parsed. */
export const size = kindOf('<size>', parseLargeSize, { spell: formatSize });

/** A cron expression that comes due: `0 0 31 2 *` never does. */
export const schedule = kindOf('<cron>', (text) => {
  const expression = text.trim();
  const fields = expression.split(/\s+/).length;
  if ((fields === 5 || fields === 6) && validate(expression)) return expression;
  throw invalidValue(
    'expected a cron expression that comes due: five fields (minute, hour, day of month, month, day of week), or six with seconds first, such as "*/5 * * * *"',
  );
});

/** A time zone that this Node knows. */
export const timezone = kindOf('<zone>', (name) => {
  // A check of any zone takes 10 ms and 5 MB, which every command would pay for the default.
  if (name === 'UTC') return name;
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return name;
  } catch {
    throw invalidValue('expected a time zone such as UTC or Europe/Berlin');
  }
});

/** A whole number. */
export function integer(minimum: number, maximum: number): Kind<number> {
  const parse = (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= minimum && value <= maximum) return value;
    throw invalidValue(`expected a whole number from ${minimum} to ${maximum}`);
  };
  return kindOf('<number>', parse, { kind: 'integer', json: { type: 'integer', minimum, maximum } });
}

function parseFlag(text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  throw invalidValue('expected true or false');
}

/** Yes or no. */
export const flag = kindOf('<true|false>', parseFlag, {
  kind: 'flag',
  json: { type: 'boolean' },
  choices: ['true', 'false'],
});

/** One of some words. */
export function choice<const T extends string>(choices: readonly T[]): Kind<T> {
  const parse = (text: string): T => {
    const chosen = choices.find((each) => each === text);
    if (chosen === undefined) throw invalidValue(`expected one of ${choices.join(', ')}`);
    return chosen;
  };
  return kindOf(`<${choices.join('|')}>`, parse, {
    kind: 'choice',
    json: { ...TEXT, enum: choices },
    choices,
  });
}

function parsePath(text: string, base: string): string {
  if (text === '') throw invalidValue('expected a path');
  if (/\p{Cc}/u.test(text)) throw invalidValue('expected a path without control characters');
  // Only a shell expands "~"; without one it would become a folder of that name.
  if (/^~(?:[^/]*)(?:\/|$)/.test(text))
    throw invalidValue('expected a path without "~", which only a shell expands');
  return resolve(base, text);
}

/** A path, absolute once parsed. */
export const path = kindOf('<path>', parsePath, { kind: 'path' });

/** Texts; an empty list only if it has a meaning. @param check why a text cannot be an entry; undefined if it can */
export function list(minItems: 0 | 1, check?: (entry: string) => string | undefined): Kind<string[]> {
  const parse = (text: string): string[] => {
    const problem = text === '' ? 'expected a text' : check?.(text);
    if (problem !== undefined) throw invalidValue(problem);
    return [text];
  };
  const emptyProblem = 'expected at least one entry; leave the setting out to select everything';
  return kindOf('<list>', parse, {
    kind: 'list',
    json: { minItems, type: 'array', items: TEXT },
    ...(minItems === 0 ? {} : { emptyProblem }),
  });
}

function parseCommand(text: string, base: string): string[] {
  const words = commandWords(text.trim());
  const [program = '', ...rest] = words;
  if (program === '') {
    const example = '["/usr/local/bin/tool","--all"]';
    throw invalidValue(`expected a program and its arguments as a list, such as ${example}`);
  }
  if (words.some((word) => word.includes('\0')))
    throw invalidValue('expected words without the character NUL');
  return [program.includes('/') ? resolve(base, program) : program, ...rest];
}

function commandWords(text: string): string[] {
  if (!text.startsWith('[')) return /\s/.test(text) ? [] : [text];
  try {
    const words: unknown = JSON.parse(text);
    return Array.isArray(words) && words.every((word) => typeof word === 'string') ? words : [];
  } catch {
    return [];
  }
}

/**
 * A program and its arguments, as a JSON list or as one word. The program's path is absolute once parsed: commands run in
 * folders of the mirror, where a relative path would lead to files from the service.
 */
export const command = kindOf('<list>', parseCommand, {
  kind: 'command',
  json: { minItems: 1, type: 'array', items: TEXT },
});

/** A secret whose values are checked; the messages of the check quote nothing of them. */
export function secretKind(
  valueHint: string,
  check: (value: string) => string | undefined,
  holdsSeveral = false,
): Kind<Secret> {
  return kindOf(valueHint, (text) => inlineSecret(text, check, holdsSeveral), {
    kind: 'secret',
    json: { ...TEXT, writeOnly: true },
    parseFile: (file) => fileSecret(file, check, holdsSeveral),
    spell: String,
  });
}

/** A secret. */
export const secret = secretKind('<secret>', addressInPlaceOfKey);

/** Keys of the service, one per line, as a secret: they are tried in order. */
export const keys = secretKind('<secret>', addressInPlaceOfKey, true);
