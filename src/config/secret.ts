import { readFileSync, statSync } from 'node:fs';
import { inspect } from 'node:util';

import { MirrorError } from '../lib/errors/errors.ts';
import { pastedProblem } from './bare-secret.ts';

/** Stands for a secret in every output. */
const MASK = '***';

/** A secret is one line; this is far above any key and keeps a wrong path from filling the memory. */
const MAX_SECRET_BYTES = 65_536;

/** A value that must not be printed: only {@link Secret.reveal} gives it, everything else gives a mask. */
export class Secret {
  readonly #read: () => string;
  readonly #mask: string;

  /**
   * @param read gives the value; called at every {@link Secret.reveal}
   * @param mask what is printed in its place
   */
  constructor(read: () => string, mask: string = MASK) {
    this.#read = read;
    this.#mask = mask;
  }

  /** The value, for the one place that sends it. */
  reveal(): string {
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

/**
 * The value of a secret as it was given, without its trailing newline.
 *
 * @throws MirrorError `settings.invalid` where it is obviously more or something else than a secret, never with the value
 */
export function checkSecret(text: string): string {
  const value = text.replace(/[\r\n]+$/, '');
  if (value === '') throw new MirrorError('settings.invalid', 'is empty');
  const problem = pastedProblem(value);
  if (problem !== undefined) throw new MirrorError('settings.invalid', problem);
  // The value becomes part of an HTTP header, where other characters cannot be sent (RFC 9110, section 5.5).
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new MirrorError(
      'settings.invalid',
      'holds letters outside of ASCII, which no key has: copy the key alone',
    );
  }
  return value;
}

/**
 * A secret given as it is.
 *
 * @throws MirrorError `settings.invalid`, never with the value
 */
export function inlineSecret(text: string): Secret {
  const value = checkSecret(text);
  return new Secret(() => value);
}

/**
 * A secret in a file. It is read again when the file has changed; while the file is missing, empty or unusable the
 * last good value stays, so that a rotation may replace it in any way.
 *
 * @param path absolute
 * @throws MirrorError `settings.invalid` if the file has no usable secret now
 */
export function fileSecret(path: string, files: SecretFiles = nodeFiles): Secret {
  let current = readSecret(path, files);
  return new Secret(() => {
    try {
      const state = files.stat(path);
      if (state.regular && state.stamp !== current.stamp) current = readSecret(path, files);
    } catch {
      // Looked at again at the next call.
    }
    return current.value;
  });
}

function readSecret(path: string, files: SecretFiles): { readonly stamp: string; readonly value: string } {
  // The metadata comes first: content that is newer than its stamp is read once more, the reverse would be missed.
  const { stamp, size } = readable(() => files.stat(path));
  if (size > MAX_SECRET_BYTES) {
    throw new MirrorError('settings.invalid', 'expected a file with one line, the secret');
  }
  const text = readable(() => files.read(path));
  try {
    return { stamp, value: checkSecret(text) };
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
    if (value instanceof Secret) return [value.reveal()];
    return typeof value === 'object' && value !== null ? secretsIn(value) : [];
  });
}
