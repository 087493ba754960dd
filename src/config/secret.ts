import { readFileSync, statSync } from 'node:fs';
import { unescape } from 'node:querystring';
import { inspect } from 'node:util';

import { systemCode } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { pastedProblem } from './bare-secret.ts';
import { invalidValue } from './problems.ts';

/** Replaces a secret in every output. */
const MASK = '***';

/** Far above any file of keys, and a guard against a wrong path to a huge file. */
const MAX_SECRET_BYTES = 65_536;

/** The most keys in one text: a longer text is some other file, whose lines must not be sent to the service. */
const MAX_KEYS = 10;

type Values = readonly [string, ...string[]];

/** Values that must not be printed: only the revealing methods return them, everything else a mask. */
export class Secret {
  readonly #read: () => Values;
  readonly #mask: string;

  /**
   * @param read returns the values; called each time that they are revealed
   * @param mask the text that is printed in their place
   */
  constructor(read: () => Values, mask: string = MASK) {
    this.#read = read;
    this.#mask = mask;
  }

  /** The value, or the first of several, for the one place that sends it. */
  reveal(): string {
    return this.#read()[0];
  }

  /** All values, in order. */
  revealAll(): readonly string[] {
    return this.#read();
  }

  toString(): string {
    return this.#mask;
  }

  toJSON(): string {
    return this.#mask;
  }

  [inspect.custom](): string {
    return `Secret(${this.#mask})`;
  }
}

/**
 * Reads the values in the text of a secret: one value, or keys one per line. Repeated and empty lines are ignored.
 *
 * @throws MirrorError `settings.invalid`, never with a part of the text
 */
function parseSecret(text: string, holdsSeveral: boolean): Values {
  const whole = text.replace(/[\r\n]+$/, '');
  const lines = holdsSeveral ? whole.split(/\r\n|\r|\n/) : [whole];
  const values = new Set<string>();
  for (const [index, line] of lines.entries()) {
    if (line === '') continue;
    const problem = secretProblem(line) ?? (holdsSeveral ? addressInPlaceOfKey(line) : undefined);
    if (problem !== undefined)
      throw invalidValue(`${lines.length === 1 ? '' : `line ${index + 1} `}${problem}`);
    values.add(line);
  }
  const [first, ...more] = values;
  if (first === undefined) throw invalidValue('is empty');
  if (values.size > MAX_KEYS) throw invalidValue(`holds more than ${MAX_KEYS} keys: is it another file?`);
  return [first, ...more];
}

/** Why a text is obviously not a bare secret, without quoting it; undefined if it may be one. */
function secretProblem(value: string): string | undefined {
  const problem = pastedProblem(value);
  if (problem !== undefined) return problem;
  // The value becomes part of an HTTP header, where other characters cannot be sent (RFC 9110, section 5.5).
  return /^[\x21-\x7e]+$/.test(value)
    ? undefined
    : 'holds letters outside of ASCII, which no key has: copy the key alone';
}

/** The problem if an address was given in place of a key; undefined otherwise. */
export function addressInPlaceOfKey(text: string): string | undefined {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(text)
    ? 'is an address: give the key that the service shows there'
    : undefined;
}

/**
 * A secret given directly.
 *
 * @throws MirrorError `settings.invalid`, never with the value
 */
export function inlineSecret(text: string, holdsSeveral = false): Secret {
  const values = parseSecret(text, holdsSeveral);
  return new Secret(() => values);
}

/**
 * A secret in a file. It is read again when the file has changed; while the file is missing, empty or unusable the
 * last valid value stays, so that a rotation may replace it in any way.
 *
 * @param path absolute
 * @throws MirrorError `settings.invalid` if the file has no usable secret now
 */
export function fileSecret(path: string, holdsSeveral = false): Secret {
  let current = readSecret(path, holdsSeveral);
  return new Secret(() => {
    try {
      const { stamp, isRegular } = stateOf(path);
      if (isRegular && stamp !== current.stamp) current = readSecret(path, holdsSeveral);
    } catch {
      // Checked again at the next call.
    }
    return current.values;
  });
}

/** The identity of a file's content by its metadata: the stamp differs whenever the content may differ. */
function stateOf(path: string) {
  const stat = statSync(path, { bigint: true });
  // The change time reveals a new content of the same length whose modification time was set back.
  const stamp = [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(':');
  // A pipe or a device is read only once.
  return { stamp, isRegular: stat.isFile(), sizeBytes: Number(stat.size) };
}

function readSecret(
  path: string,
  holdsSeveral: boolean,
): { readonly stamp: string; readonly values: Values } {
  // The metadata comes first: content newer than its stamp is read once more; in the other order a change would be missed.
  const { stamp, sizeBytes } = readable(() => stateOf(path));
  if (sizeBytes > MAX_SECRET_BYTES) throw invalidValue('expected a file that holds nothing but the secret');
  const text = readable(() => readFileSync(path, 'utf8'));
  try {
    return { stamp, values: parseSecret(text, holdsSeveral) };
  } catch (error) {
    const reason = error instanceof MirrorError ? error.message : 'is unusable';
    throw new MirrorError('settings.invalid', `the content of ${path}: ${reason}`, { cause: error });
  }
}

function readable<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    // The path is left out: if the secret itself was given in its place, the message would show it.
    throw invalidValue(
      `expected the path of a file that can be read (${systemCode(error) ?? 'unknown error'})`,
    );
  }
}

/** All present secrets of the settings, also the password alone of an address, to keep them out of every output. */
export function secretsOf(settings: object): string[] {
  return Object.values(settings).flatMap((value: unknown) => {
    if (value instanceof Secret) {
      const values = value.revealAll();
      return values.concat(values.flatMap(passwordIn));
    }
    return typeof value === 'object' && value !== null ? secretsOf(value) : [];
  });
}

/** The password in an address, both encoded and decoded. */
function passwordIn(text: string): string[] {
  const password = URL.parse(text)?.password ?? '';
  return password === '' ? [] : [password, unescape(password)];
}
