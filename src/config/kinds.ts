import { hostname } from 'node:os';

import { validate } from 'node-cron';
import { z } from 'zod';

import { MirrorError } from '../lib/errors/errors.ts';
import { formatDuration, formatSize, parseDuration, parseSize } from '../lib/text/units.ts';
import {
  addressProblem,
  formatListen,
  parseBaseUrl,
  parseListen,
  parseState,
  signingKeyProblem,
} from './addresses.ts';
import { invalidValue } from './problems.ts';
import { addressInPlaceOfKey, Secret } from './secret.ts';
import {
  formatDeletionLimit,
  formatRetention,
  formatShard,
  parseDeletionLimit,
  parseRetention,
  parseShard,
} from './plan-settings.ts';

/** A part of the settings that some commands require. */
export type Need = 'service' | 'directory';

/** The syntax of some settings. The messages of its type describe valid values, and leave the rejected value out. */
export interface Kind<T extends z.ZodType = z.ZodType> {
  readonly type: T;
  readonly kind: 'text' | 'address' | 'secret' | 'path' | 'integer' | 'flag' | 'choice' | 'list' | 'command';
  /** The placeholder for the value in a command's help, e.g. `<duration>`. */
  readonly valueHint: string;
  readonly choices?: readonly string[];
  /** Whether it is a secret that may hold several, one per line. */
  readonly holdsSeveral?: true;
  /** Formats a value as in the file; texts, numbers and lists need none. */
  spell?(this: void, value: unknown): string;
}

/** A kind whose values are parsed from a text. */
interface TextKind<T> extends Kind<z.ZodType<T, string>> {
  readonly parse: (text: string) => T;
}

/** The metadata of one setting. */
interface OwnFacts {
  /** One line, for a table and a command's help; may hold Markdown code marks. */
  readonly description: string;
  /** More, for the example file. */
  readonly comment?: string;
  /** The default as in the file; undefined if there is none. */
  readonly default?: unknown;
  /** The default in words, for a setting without one. */
  readonly defaultText?: string;
  /** A value for the example file, for a setting without a default. */
  readonly example?: string | readonly string[];
  /** The commands that require it. */
  readonly need?: Need;
  /** Whether a change of it while the daemon runs waits for a restart. */
  readonly needsRestart?: true;
  /** The dotted name of the secret in its file: `service.apiKey` for `service.apiKeyFile`. */
  readonly fileOf?: string;
}

/** The metadata of one setting, and of its kind. */
export type SettingFacts = OwnFacts & Omit<Kind, 'type'>;

/** The metadata of all settings, by their schemas. Names, variables, flags, the help and all tables derive from it. */
export const settingFacts = z.registry<SettingFacts>();

/** Makes a setting of a kind, with or without a default. */
export function setting<T extends z.ZodType>(
  kind: Kind<T>,
  facts: OwnFacts & { readonly default: z.input<T> },
): z.ZodPrefault<T>;
export function setting<T extends z.ZodType>(kind: Kind<T>, facts: OwnFacts): z.ZodOptional<T>;
export function setting(kind: Kind, facts: OwnFacts): z.ZodType {
  const { type, ...shared } = kind;
  const schema = facts.default === undefined ? type.optional() : type.prefault(facts.default);
  const described = schema.describe(facts.description);
  settingFacts.add(described, { ...facts, ...shared });
  return described;
}

/** Makes a section: settings below one name. The loader fills in an absent section. */
export function section<T extends z.core.$ZodShape>(description: string, shape: T) {
  return z.strictObject(shape).describe(description);
}

/** A path of a file that holds a secret: the setting beside the secret's whose name ends with `File`. */
export function secretFile(secretName: string, comment?: string) {
  const description = `path of a file that holds \`${secretName}\``;
  return setting(path(), { description, fileOf: secretName, ...(comment === undefined ? {} : { comment }) });
}

function textKind<T>(
  valueHint: string,
  parse: (text: string) => T,
  spell?: (value: T) => string,
  kind: Kind['kind'] = 'text',
): TextKind<T> {
  const type = z.string().transform((text, context): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
      return z.NEVER;
    }
  });
  return { type, kind, valueHint, parse, ...(spell === undefined ? {} : { spell }) };
}

/** Also takes `off`, which is null once parsed. */
export function orOff<T>({ kind, valueHint, parse, spell }: TextKind<T>): TextKind<T | null> {
  return textKind(
    valueHint.replace('>', '|off>'),
    (text) => (text === 'off' ? null : parse(text)),
    (value) => (value === null ? 'off' : (spell?.(value) ?? String(value))),
    kind,
  );
}

/** The longest timer in whole days: see `LONGEST_TIMER_MS` in lib/time/back-off.ts. */
const LONGEST_TIMER = '24d';

/** A duration, in milliseconds once parsed. */
export function duration(min = '0s', max = LONGEST_TIMER) {
  const [least, most] = [parseDuration(min), parseDuration(max)];
  const range = `from ${formatDuration(least)} to ${formatDuration(most)}`;
  return textKind(
    '<duration>',
    (text) => {
      const milliseconds = parseDuration(text);
      if (milliseconds < least || milliseconds > most) throw invalidValue(`expected a duration ${range}`);
      return milliseconds;
    },
    formatDuration,
  );
}

/** A size of at least 1 kB, in bytes once parsed. */
export function size() {
  return textKind(
    '<size>',
    (text) => {
      const bytes = parseSize(text);
      if (bytes < 1000) throw invalidValue('expected a size of at least 1 kB');
      return bytes;
    },
    formatSize,
  );
}

/** The limit for deletions without approval. */
export const deletionLimit = textKind('<share|number|off>', parseDeletionLimit, formatDeletionLimit);

/** The retention of the history. */
export const retention = textKind('<number|duration|off>', parseRetention, formatRetention);

/** This instance's share of the repositories. */
export const shard = textKind(
  '<index/count>',
  (text) => parseShard(text, hostname(), process.env['JOB_COMPLETION_INDEX']),
  formatShard,
);

/** The address of a service. */
export const baseUrl = textKind('<url>', parseBaseUrl, undefined, 'address');

/** An address to listen on. */
export const listen = textKind('<host:port>', parseListen, formatListen);

/** The choice of the state cache. */
export const state = textKind(
  '<sqlite|address>',
  parseState,
  (value) => (value.store === 'sqlite' ? value.store : value.address.toString()),
  'address',
);

/** A cron expression that comes due. */
export const schedule = textKind('<cron>', (text) => {
  const expression = text.trim();
  const fields = expression.split(/\s+/);
  if (fields.length < 5 || fields.length > 6)
    throw invalidValue('expected a cron expression of 5 or 6 fields, such as "*/5 * * * *"');
  if (validate(expression)) return expression;
  const without = (field: number): string => fields.with(fields.length - field, '*').join(' ');
  // Each field alone is valid, but the named months do not have the day.
  if (validate(without(3)) && validate(without(2)))
    throw invalidValue('expected a cron expression that comes due: none of its months has the day of month');
  throw invalidValue(
    'expected a cron expression that comes due: five fields (minute, hour, day of month, month, day of week), or six with seconds first',
  );
});

/** A time zone that this Node knows. */
export const timezone = textKind('<zone>', (name) => {
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
export function integer(min: number, max: number): Kind<z.ZodInt> {
  const error = `expected a whole number from ${min} to ${max}`;
  return { type: z.int({ error }).min(min, error).max(max, error), kind: 'integer', valueHint: '<number>' };
}

const FLAG_TYPE = z.boolean({ error: 'expected true or false' });

/** Yes or no. */
export const flag: Kind<typeof FLAG_TYPE> = {
  type: FLAG_TYPE,
  kind: 'flag',
  valueHint: '<true|false>',
  choices: ['true', 'false'],
};

/** One of some words. */
export function choice<const T extends readonly [string, ...string[]]>(choices: T) {
  const type = z.enum(choices, { error: `expected one of ${choices.join(', ')}` });
  return { type, kind: 'choice', valueHint: `<${choices.join('|')}>`, choices } as const;
}

/** An absolute path; the loader has made it absolute. */
export function path() {
  return { type: z.string().check(refusing(pathProblem)), kind: 'path', valueHint: '<path>' } as const;
}

/** Why a text cannot be a path; undefined if it can. */
export function pathProblem(text: string): string | undefined {
  if (text === '') return 'expected a path';
  if (/\p{Cc}/u.test(text)) return 'expected a path without control characters';
  // Only a shell expands "~"; without one it would become a folder of that name.
  if (/^~(?:[^/]*)(?:\/|$)/.test(text)) return 'expected a path without "~", which only a shell expands';
  return undefined;
}

/** Texts; an empty list only if it has a meaning. */
export function list(min: 0 | 1, check?: (entry: string) => string | undefined) {
  const problem = (text: string): string | undefined => (text === '' ? 'expected a text' : check?.(text));
  const type = z
    .array(z.string().check(refusing(problem)))
    .min(min, 'expected at least one entry; leave the setting out to select everything');
  return { type, kind: 'list', valueHint: '<list>' } as const;
}

/** A program and its arguments; the loader has made it a list, with the program's path absolute. */
export function command() {
  const message = 'expected a program and its arguments as a list, such as ["/usr/local/bin/tool","--all"]';
  const type = z
    .array(z.string({ error: message }), { error: message })
    .min(1, message)
    .refine(([program]) => program !== '', message)
    .refine(
      (words) => words.every((word) => !word.includes('\0')),
      'expected words without the character NUL',
    );
  return { type, kind: 'command', valueHint: '<list>' } as const;
}

/** A secret whose text is checked; the messages of the check quote nothing of the text. The loader has made it a secret. */
function secretKind(valueHint: string, problem: (text: string) => string | undefined) {
  const type = z.instanceof(Secret).check(refusing((value: Secret) => problem(value.reveal())));
  return { type, kind: 'secret', valueHint, spell: String } as const;
}

/** A secret. */
export const secret = secretKind('<secret>', addressInPlaceOfKey);

/** The address of a receiver, as a secret: its path may be its only protection. */
export const secretAddress = secretKind('<url>', addressProblem);

/** A signing key, as a secret. */
export const secretKey = secretKind('<secret>', signingKeyProblem);

/** Keys of the service, one per line, as a secret: they are tried in order. */
export const keys = { ...secretKind('<secret>', () => undefined), holdsSeveral: true } as const;

/** Turns a problem of a value into an issue of the schema. */
function refusing<T>(problem: (value: T) => string | undefined): z.core.CheckFn<T> {
  return (context) => {
    const message = problem(context.value);
    if (message !== undefined) context.issues.push({ code: 'custom', message, input: context.value });
  };
}
