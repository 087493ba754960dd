import { readFileSync, statSync } from 'node:fs';
import { unescape } from 'node:querystring';
import { inspect } from 'node:util';

import { systemCode } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { invalidValue } from './problems.ts';

/** Replaces a secret in every output. */
const MASK = '***';

/** Far above any file of keys, and a guard against a wrong path to a huge file. */
const MAX_SECRET_BYTES = 65_536;

/** The most keys in one text: a longer text is some other file, whose lines must not be sent to the service. */
const MAX_KEYS = 10;

/** Values that must not be printed: only the revealing methods return them, everything else a mask. */
export class Secret {
  readonly #read: () => readonly string[];
  readonly #mask: string;

  /**
   * @param read returns the values; called each time that they are revealed
   * @param mask the text that is printed in their place
   */
  constructor(read: () => readonly string[], mask: string = MASK) {
    this.#read = read;
    this.#mask = mask;
  }

  /** The value, or the first of several, for the one place that sends it. */
  reveal(): string {
    return this.#read()[0] ?? '';
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

/** Content that is no bare key, with the remedy. The messages hold nothing of it. */
const PASTED: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:export |set )?[A-Za-z_]\w*=[^=\s]/, 'is a line NAME=value: give the value alone'],
  [
    /^["'`{[]|["'`]$/,
    "has quotes or brackets around it, which are kept (docker's --env-file keeps them, too): give the key alone",
  ],
  [
    /\$\{|^\$\w+$|^\{\{.*\}\}$|^%\w+%$|^<.*>$|^your[-_]|^change[-_]?me$|^([*x.])\1{3,}$/i,
    'is a placeholder, or a variable that nothing replaced: give the key itself',
  ],
  [
    /^(?:~|\.\.?)?\/(?:etc|run|var|home|root|opt|mnt|media|secrets?|usr|tmp|srv|data)\/|^(?:~|\.\.?)\/|^[A-Za-z]:\\/,
    'is the path of a file: give it by the setting whose name ends with File',
  ],
  // The value becomes part of an HTTP header, where other characters cannot be sent (RFC 9110, section 5.5).
  [
    /[^\x21-\x7e]/,
    'holds a space, a line break, an invisible character or a letter outside of ASCII: give the key alone, in UTF-8 without a byte order mark',
  ],
];

/** Why a text cannot be the value of a secret; undefined if it can. The message quotes nothing of it. */
type SecretCheck = (value: string) => string | undefined;

const anyText: SecretCheck = () => undefined;

/**
 * Reads the values in the text of a secret: one value, or keys one per line. Repeated and empty lines are ignored.
 *
 * @param where the start of the messages: the source of the text
 * @throws MirrorError `settings.invalid`, never with a part of the text
 */
function parseSecret(text: string, check: SecretCheck, holdsSeveral: boolean, where = ''): readonly string[] {
  const whole = text.replace(/[\r\n]+$/, '');
  const lines = holdsSeveral ? whole.split(/\r\n|\r|\n/) : [whole];
  const values = new Set<string>();
  for (const [index, line] of lines.entries()) {
    if (line === '') continue;
    const problem = PASTED.find(([pattern]) => pattern.test(line))?.[1] ?? check(line);
    if (problem !== undefined)
      throw invalidValue(`${where}${lines.length === 1 ? '' : `line ${index + 1} `}${problem}`);
    values.add(line);
  }
  if (values.size === 0) throw invalidValue(`${where}is empty`);
  if (values.size > MAX_KEYS)
    throw invalidValue(`${where}holds more than ${MAX_KEYS} keys: is it another file?`);
  return [...values];
}

/** The check of a key: an address was given in its place. */
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
export function inlineSecret(text: string, check = anyText, holdsSeveral = false): Secret {
  const values = parseSecret(text, check, holdsSeveral);
  return new Secret(() => values);
}

/** The values of pipes and devices, by path. Reading one again would wait for another writer, and the program would hear no signal. */
const readOnce = new Map<string, readonly string[]>();

/**
 * A secret in a file. It is read again when the file has changed; while the file is missing, empty or unusable the
 * last valid value stays, so that a rotation may replace it in any way.
 *
 * @param path absolute
 * @throws MirrorError `settings.invalid` if the file has no usable secret now
 */
export function fileSecret(path: string, check = anyText, holdsSeveral = false): Secret {
  let stamp = '';
  let values: readonly string[] | null = null;
  const read = (): readonly string[] => {
    // The metadata comes first: content newer than its stamp is read once more; in the other order a change would be missed.
    const stat = statSync(path, { bigint: true });
    // The change time reveals a new content of the same length whose modification time was set back.
    const present = [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(':');
    if (!stat.isFile()) values = readOnce.get(path) ?? values;
    if (values !== null && (stamp === present || !stat.isFile())) return values;
    if (stat.size > MAX_SECRET_BYTES) throw invalidValue('expected a file that holds nothing but the secret');
    values = parseSecret(readFileSync(path, 'utf8'), check, holdsSeveral, `the content of ${path}: `);
    stamp = present;
    if (!stat.isFile()) readOnce.set(path, values);
    return values;
  };
  try {
    read();
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    // The path is left out: if the secret itself was given in its place, the message would show it.
    throw invalidValue(
      `expected the path of a file that can be read (${systemCode(error) ?? 'unknown error'})`,
    );
  }
  return new Secret(() => {
    try {
      return read();
    } catch (error) {
      // Checked again at the next call.
      if (values === null) throw error;
      return values;
    }
  });
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
