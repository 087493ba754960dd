import { hostname } from 'node:os';

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
  type StateSetting,
} from './addresses.ts';
import { addressInPlaceOfKey } from './bare-secret.ts';
import { setting, settingType } from './metadata.ts';
import {
  formatDeletionLimit,
  formatRetention,
  formatShard,
  parseDeletionLimit,
  parseRetention,
  parseShard,
} from './plan-settings.ts';
import { Secret } from './secret.ts';

/** The types of settings. Their messages say what is expected; the loader adds the rejected value, unless that is secret. */

/** The longest time in whole days that a timer waits for: see `lib/time/longest-timer.ts`. */
const LONGEST_TIMER = '24d';

/** A duration, in milliseconds once parsed. */
export function duration(limits: { readonly min?: string; readonly max?: string } = {}) {
  const min = parseDuration(limits.min ?? '0s');
  const max = parseDuration(limits.max ?? LONGEST_TIMER);
  const type = fromText((text) => {
    const milliseconds = parseDuration(text);
    if (milliseconds >= min && milliseconds <= max) return milliseconds;
    throw new MirrorError(
      'settings.invalid',
      `expected a duration from ${formatDuration(min)} to ${formatDuration(max)}`,
    );
  });
  return settingType(type, { kind: 'duration', valueHint: '<duration>', spell: formatDuration });
}

/** A size, in bytes once parsed. */
export function size(limits: { readonly min: string }) {
  const type = fromText(parserOfSizes(limits.min, ''));
  return settingType(type, { kind: 'size', valueHint: '<size>', spell: formatSize });
}

/** A size, in bytes once parsed, or `off`, which is null once parsed. */
export function sizeOrOff(limits: { readonly min: string }) {
  const type = fromText(orOff(parserOfSizes(limits.min, ', or off')));
  return settingType(type, { kind: 'size', valueHint: '<size|off>', spell: spellOrOff(formatSize) });
}

function parserOfSizes(least: string, orElse: string): (text: string) => number {
  const min = parseSize(least);
  return (text) => {
    const bytes = parseSize(text);
    if (bytes >= min) return bytes;
    throw new MirrorError('settings.invalid', `expected a size of at least ${formatSize(min)}${orElse}`);
  };
}

/** Also takes `off`, which is null once parsed. */
function orOff<T>(parse: (text: string) => T): (text: string) => T | null {
  return (text) => (text === 'off' ? null : parse(text));
}

function spellOrOff<T>(spell: (value: T) => string): (value: T | null) => string {
  return (value) => (value === null ? 'off' : spell(value));
}

/** How much may be deleted at once. */
export function deletionLimit() {
  const type = fromText(parseDeletionLimit);
  return settingType(type, { kind: 'limit', valueHint: '<share|number|off>', spell: formatDeletionLimit });
}

/** How much of the history is kept. */
export function retention() {
  const type = fromText(parseRetention);
  return settingType(type, { kind: 'retention', valueHint: '<number|duration|off>', spell: formatRetention });
}

/** A whole number. */
export function integer(min: number, max: number) {
  const type = z.int({ error: () => `expected a whole number from ${String(min)} to ${String(max)}` });
  const message = `expected a whole number from ${String(min)} to ${String(max)}`;
  return settingType(type.min(min, message).max(max, message), { kind: 'integer', valueHint: '<number>' });
}

/** Yes or no. */
export function flag() {
  const type = z.boolean({ error: () => 'expected true or false' });
  return settingType(type, { kind: 'flag', valueHint: '<true|false>', choices: ['true', 'false'] });
}

/** One of some words. */
export function choice<const T extends readonly [string, ...string[]]>(choices: T) {
  const type = z.enum(choices, { error: () => `expected one of ${choices.join(', ')}` });
  return settingType(type, { kind: 'choice', valueHint: `<${choices.join('|')}>`, choices });
}

/** An absolute path; the loader has made it absolute. */
export function path() {
  return settingType(z.string().check(refusing(pathProblem)), { kind: 'path', valueHint: '<path>' });
}

/** Why a text cannot be a path; undefined if it can. */
export function pathProblem(text: string): string | undefined {
  if (text === '') return 'expected a path';
  if (/\p{Cc}/u.test(text)) return 'expected a path without control characters';
  // Only a shell knows what "~" is; without one it would become a folder of that name.
  if (/^~(?:[^/]*)(?:\/|$)/.test(text)) return 'expected a path without "~", which only a shell expands';
  return undefined;
}

/** Texts; an empty list only where it means something. */
export function list(options: {
  readonly min: 0 | 1;
  readonly check?: (entry: string) => string | undefined;
}) {
  const problem = (text: string): string | undefined =>
    text === '' ? 'expected a text' : options.check?.(text);
  const type = z
    .array(z.string().check(refusing(problem)))
    .min(options.min, 'expected at least one entry; leave the setting out to select everything');
  return settingType(type, { kind: 'list', valueHint: '<list>' });
}

/** The address of a service. */
export function baseUrl() {
  return settingType(fromText(parseBaseUrl), { kind: 'url', valueHint: '<url>' });
}

/** An address to listen on. */
export function listen() {
  return settingType(fromText(parseListen), {
    kind: 'listen',
    valueHint: '<host:port>',
    spell: formatListen,
  });
}

/** An address to listen on, or `off`, which is null once parsed. */
export function listenOrOff() {
  const type = fromText(orOff(parseListen));
  return settingType(type, { kind: 'listen', valueHint: '<host:port|off>', spell: spellOrOff(formatListen) });
}

/** The choice of the state cache. */
export function state() {
  const spell = (value: StateSetting): string =>
    value.store === 'sqlite' ? value.store : value.address.toString();
  return settingType(fromText(parseState), { kind: 'state', valueHint: '<sqlite|address>', spell });
}

/** The part of all repositories that this instance mirrors. */
export function shard() {
  const type = fromText((text) =>
    parseShard(text, { hostName: hostname(), completionIndex: process.env['JOB_COMPLETION_INDEX'] }),
  );
  return settingType(type, { kind: 'shard', valueHint: '<index/count>', spell: formatShard });
}

/** A secret; the loader has made it one, whether it was given in place or by its file. */
export function secret() {
  return secretOf(addressInPlaceOfKey, '<secret>');
}

/** Keys of the service, one per line, as a secret: they are tried in their order. */
export function keys() {
  const facts = { kind: 'secret', valueHint: '<secret>', spell: String, holdsSeveral: true } as const;
  return settingType(z.instanceof(Secret), facts);
}

/** The address of a receiver or server, as a secret: its path or its user name may be all that protects it. */
export function secretAddress() {
  return secretOf(addressProblem, '<url>');
}

/** A key to sign with, as a secret. */
export function secretKey() {
  return secretOf(signingKeyProblem, '<secret>');
}

/** A secret whose text is checked; the messages of the check tell nothing of the text. */
function secretOf(problem: (text: string) => string | undefined, valueHint: string) {
  const type = z.instanceof(Secret).check(refusing((value: Secret) => problem(value.reveal())));
  return settingType(type, { kind: 'secret', valueHint, spell: String });
}

/** A path of a file that holds a secret: the setting beside the secret's whose name ends with `File`. */
export function secretFile(secretName: string, comment?: string) {
  return setting(path().optional(), {
    description: `path of a file that holds \`${secretName}\``,
    fileOf: secretName,
    ...(comment === undefined ? {} : { comment }),
  });
}

/** Turns a problem of a value into an issue of the schema. */
function refusing<T>(problem: (value: T) => string | undefined): z.core.CheckFn<T> {
  return (context) => {
    const message = problem(context.value);
    if (message !== undefined) context.issues.push({ code: 'custom', message, input: context.value });
  };
}

/** A program and its arguments; the loader has made a list of it, and a path of the program absolute. */
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
  return settingType(type, { kind: 'command', valueHint: '<list>' });
}

/** A cron expression; whether its fields make sense is checked by who runs it. */
export function schedule() {
  const type = z
    .string()
    .trim()
    .regex(/^\S+(?:\s+\S+){4,5}$/, 'expected a cron expression of 5 or 6 fields, such as "*/5 * * * *"');
  return settingType(type, { kind: 'schedule', valueHint: '<cron>' });
}

/** A time zone that this Node knows. */
export function timezone() {
  const type = z.string().refine(isTimeZone, 'expected a time zone such as UTC or Europe/Berlin');
  return settingType(type, { kind: 'timezone', valueHint: '<zone>' });
}

function isTimeZone(name: string): boolean {
  // Looking at any zone takes 10 ms and 5 MB, which every command would pay for the default.
  if (name === 'UTC') return true;
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** A type whose parser throws what is expected. */
function fromText<T>(parse: (text: string) => T) {
  return z.string().transform((text, context): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
      return z.NEVER;
    }
  });
}
