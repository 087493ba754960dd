import { readFileSync, statSync } from 'node:fs';
import { inspect } from 'node:util';

import { MirrorError } from '../lib/errors/errors.ts';
import { addressInPlaceOfKey, pastedProblem } from './bare-secret.ts';

/** Stands for a secret in every output. */
const MASK = '***';

/** This is far above any file of keys, and keeps a wrong path from filling the memory. */
const MAX_SECRET_BYTES = 65_536;

/** The most keys in one text: a longer one is some other file, whose lines must not be sent to the service. */
const MAX_KEYS = 10;

/**
 * Reads the values in the text of a secret.
 *
 * @throws MirrorError `settings.invalid`, never with a part of the text
 */
export type SecretParser = (text: string) => readonly [string, ...string[]];

/** Values that must not be printed: only the methods that reveal give them, everything else gives a mask. */
export class Secret {
  readonly #read: () => ReturnType<SecretParser>;
  readonly #mask: string;

  /**
   * @param read gives the values; called each time that they are revealed
   * @param mask what is printed in their place
   */
  constructor(read: () => ReturnType<SecretParser>, mask: string = MASK) {
    this.#read = read;
    this.#mask = mask;
  }

  /** The value, the first one of several, for the one place that sends it. */
  reveal(): string {
    return this.#read()[0];
  }

  /** All values, in their order. */
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

/** Which content a file has, as far as its metadata tells. */
interface FileState {
  /** Differs whenever the content may differ. */
  readonly stamp: string;
  /** False for a pipe or a device, which is read once only. */
  readonly regular: boolean;
  /** In bytes. */
  readonly size: number;
}

/** The file operations of a file-backed secret. */
export interface SecretFiles {
  stat(path: string): FileState;
  read(path: string): string;
}

const nodeFiles: SecretFiles = {
  stat(path) {
    const stat = statSync(path, { bigint: true });
    // The change time catches a new content of the same length whose modification time was set back.
    const stamp = [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(':');
    return { stamp, regular: stat.isFile(), size: Number(stat.size) };
  },
  read: (path) => readFileSync(path, 'utf8'),
};

/** Reads a text that is one secret, without its trailing newline. */
export const oneSecret: SecretParser = (text) => {
  const value = text.replace(/[\r\n]+$/, '');
  const problem = secretProblem(value);
  if (problem !== undefined) throw new MirrorError('settings.invalid', problem);
  return [value];
};

/** Reads a text that holds keys, one per line, each of them once. Empty lines do not count. */
export const severalKeys: SecretParser = (text) => {
  const keys = new Set<string>();
  const lines = text.replace(/[\r\n]+$/, '').split(/\r\n|\r|\n/);
  for (const [index, line] of lines.entries()) {
    if (line === '') continue;
    const problem = secretProblem(line) ?? addressInPlaceOfKey(line);
    if (problem !== undefined) {
      const which = lines.length === 1 ? '' : `line ${String(index + 1)} `;
      throw new MirrorError('settings.invalid', `${which}${problem}`);
    }
    keys.add(line);
  }
  const [first, ...more] = keys;
  if (first === undefined) throw new MirrorError('settings.invalid', 'is empty');
  if (keys.size > MAX_KEYS) {
    throw new MirrorError(
      'settings.invalid',
      `holds more than ${String(MAX_KEYS)} keys: is it another file?`,
    );
  }
  return [first, ...more];
};

/** Says why a text is obviously more or something else than a secret, without a part of it; undefined if it may be one. */
function secretProblem(value: string): string | undefined {
  if (value === '') return 'is empty';
  const problem = pastedProblem(value);
  if (problem !== undefined) return problem;
  // The value becomes part of an HTTP header, where other characters cannot be sent (RFC 9110, section 5.5).
  return /^[\x21-\x7e]+$/.test(value)
    ? undefined
    : 'holds letters outside of ASCII, which no key has: copy the key alone';
}

/**
 * A secret given as it is.
 *
 * @throws MirrorError `settings.invalid`, never with the value
 */
export function inlineSecret(text: string, parse: SecretParser = oneSecret): Secret {
  const values = parse(text);
  return new Secret(() => values);
}

/**
 * A secret in a file. It is read again when the file has changed; while the file is missing, empty or unusable the
 * last good value stays, so that a rotation may replace it in any way.
 *
 * @param path absolute
 * @throws MirrorError `settings.invalid` if the file has no usable secret now
 */
export function fileSecret(
  path: string,
  parse: SecretParser = oneSecret,
  files: SecretFiles = nodeFiles,
): Secret {
  let current = readSecret(path, parse, files);
  return new Secret(() => {
    try {
      const state = files.stat(path);
      if (state.regular && state.stamp !== current.stamp) current = readSecret(path, parse, files);
    } catch {
      // Looked at again at the next call.
    }
    return current.values;
  });
}

/** The content of a secret's file. */
interface SecretContent {
  /** See {@link FileState}. */
  readonly stamp: string;
  readonly values: ReturnType<SecretParser>;
}

function readSecret(path: string, parse: SecretParser, files: SecretFiles): SecretContent {
  // The metadata comes first: content that is newer than its stamp is read once more, the reverse would be missed.
  const { stamp, size } = readable(() => files.stat(path));
  if (size > MAX_SECRET_BYTES) {
    throw new MirrorError('settings.invalid', 'expected a file that holds nothing but the secret');
  }
  const text = readable(() => files.read(path));
  try {
    return { stamp, values: parse(text) };
  } catch (error) {
    const reason = error instanceof MirrorError ? error.message : 'is unusable';
    throw new MirrorError('settings.invalid', `the content of ${path}: ${reason}`, { cause: error });
  }
}

function readable<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    // The path is left out: where the secret itself was given in its place, the message would show it.
    const message = `expected the path of a file that can be read (${errorCode(error)})`;
    throw new MirrorError('settings.invalid', message);
  }
}

/** The system's code of an error, such as `ENOENT`. */
export function errorCode(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'unknown error';
}

/** All secrets that settings hold, as they are now, wherever they stand: to keep them out of every output. */
export function secretsIn(settings: object): string[] {
  return Object.values(settings).flatMap((value: unknown) => {
    if (value instanceof Secret) return value.revealAll();
    return typeof value === 'object' && value !== null ? secretsIn(value) : [];
  });
}
