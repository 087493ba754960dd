import { z } from 'zod';

import { MirrorError } from '../lib/errors/errors.ts';
import { parseDeletionLimit } from '../mirror/plan/guard.ts';
import { parseRetention } from '../mirror/plan/retention.ts';
import { formatDuration, formatSize, parseDuration, parseSize } from '../lib/text/units.ts';
import { addressProblem, parseBaseUrl, parseListen, parseState, signingKeyProblem } from './addresses.ts';
import { settingType } from './leaf.ts';
import { Secret } from './secret.ts';

/** The types of settings. Their messages say what is expected; the loader adds what it got, unless that is secret. */

/** The longest that a timer of Node can wait is 2^31 - 1 ms, a little under 25 days; more would fire at once. */
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
  return settingType(type, { kind: 'duration', valueHint: '<duration>' });
}

/** A size, in bytes once parsed. */
export function size(limits: { readonly min: string }) {
  const min = parseSize(limits.min);
  const type = fromText((text) => {
    const bytes = parseSize(text);
    if (bytes >= min) return bytes;
    throw new MirrorError('settings.invalid', `expected a size of at least ${formatSize(min)}`);
  });
  return settingType(type, { kind: 'size', valueHint: '<size>' });
}

/** A size, in bytes once parsed, or `off`, which is null once parsed. */
export function sizeOrOff(limits: { readonly min: string }) {
  const min = parseSize(limits.min);
  const type = fromText((text) => {
    if (text === 'off') return null;
    const bytes = parseSize(text);
    if (bytes >= min) return bytes;
    throw new MirrorError('settings.invalid', `expected a size of at least ${formatSize(min)}, or off`);
  });
  return settingType(type, { kind: 'size', valueHint: '<size|off>' });
}

/** How much may be deleted at once. */
export function deletionLimit() {
  return settingType(fromText(parseDeletionLimit), { kind: 'limit', valueHint: '<share|number|off>' });
}

/** How much of the history is kept. */
export function retention() {
  return settingType(fromText(parseRetention), { kind: 'retention', valueHint: '<number|duration|off>' });
}

/** A whole number. */
export function integer(min: number, max: number) {
  const type = z.int({ error: () => `expected a whole number from ${String(min)} to ${String(max)}` });
  const message = `expected a whole number from ${String(min)} to ${String(max)}`;
  return settingType(type.min(min, message).max(max, message), { kind: 'integer', valueHint: '<number>' });
}

/** One of some words. */
export function choice<const T extends readonly [string, ...string[]]>(choices: T) {
  const type = z.enum(choices, { error: () => `expected one of ${choices.join(', ')}` });
  return settingType(type, { kind: 'choice', valueHint: `<${choices.join('|')}>`, choices });
}

/** An absolute path; the loader has made it absolute. */
export function path() {
  const type = z.string().check((context) => {
    const message = pathProblem(context.value);
    if (message !== undefined) context.issues.push({ code: 'custom', message, input: context.value });
  });
  return settingType(type, { kind: 'path', valueHint: '<path>' });
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
  const entry = z.string().check((context) => {
    const message = context.value === '' ? 'expected a text' : options.check?.(context.value);
    if (message !== undefined) context.issues.push({ code: 'custom', message, input: context.value });
  });
  const type = z
    .array(entry)
    .min(options.min, 'expected at least one entry; leave the setting out to select everything');
  return settingType(type, { kind: 'list', valueHint: '<list>' });
}

/** The address of a service. */
export function baseUrl() {
  return settingType(fromText(parseBaseUrl), { kind: 'url', valueHint: '<url>' });
}

/** An address to listen on. */
export function listen() {
  return settingType(fromText(parseListen), { kind: 'listen', valueHint: '<host:port>' });
}

/** An address to listen on, or `off`, which is null once parsed. */
export function listenOrOff() {
  const type = fromText((text) => (text === 'off' ? null : parseListen(text)));
  return settingType(type, { kind: 'listen', valueHint: '<host:port|off>' });
}

/** The choice of the state cache. */
export function state() {
  return settingType(fromText(parseState), { kind: 'state', valueHint: '<sqlite|address>' });
}

/** A secret; the loader has made it one, whether it was given in place or by its file. */
export function secret() {
  return settingType(z.instanceof(Secret), { kind: 'secret', valueHint: '<secret>' });
}

/** The address of something that is told or asked, as a secret: its path or its user name may be all that protects it. */
export function secretAddress() {
  return settingType(z.instanceof(Secret).check(revealing(addressProblem)), {
    kind: 'secret',
    valueHint: '<url>',
  });
}

/** A key to sign with, as a secret. */
export function secretKey() {
  return settingType(z.instanceof(Secret).check(revealing(signingKeyProblem)), {
    kind: 'secret',
    valueHint: '<secret>',
  });
}

/** A check of what a secret holds now, the message of which tells nothing of it. */
function revealing(problem: (text: string) => string | undefined): z.core.CheckFn<Secret> {
  return (context) => {
    const message = problem(context.value.reveal());
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
