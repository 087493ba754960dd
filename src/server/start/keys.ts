import { randomBytes } from 'node:crypto';

import type { Settings } from '../../config/schema.ts';
import { fixedKey, type KeyKind, type Keys } from '../keys/keys.ts';
import { createKeyReader } from '../keys/key-file.ts';

/** Keys that hold until the service stops. */
export interface TemporaryKeys {
  readonly apiKey: string;
  /** Null where there is a token already. */
  readonly apiToken: string | null;
}

/** The keys that a service lets in. */
export interface ServedKeys {
  readonly keys: Keys;
  /** Null where there is a personal key already. */
  readonly temporary: TemporaryKeys | null;
  /** The keys that are known as they are, which must not be shown. */
  readonly secrets: readonly string[];
}

/**
 * The keys of a service: those of the settings, those of its directory as they are at each request, and, without a personal key, some
 * that hold until it stops.
 * @param directory null for a service that has none of its own
 * @throws MirrorError `directory.unusable` for a damaged file of keys
 */
export async function openServedKeys(
  settings: Settings['serve'],
  directory: string | null,
): Promise<ServedKeys> {
  const stored: Keys = directory === null ? () => Promise.resolve([]) : createKeyReader(directory);
  const found = await stored();
  const apiKey = settings.apiKey?.reveal();
  const apiToken = settings.apiToken?.reveal();
  const has = (kind: KeyKind): boolean => found.some((key) => key.kind === kind);
  const temporary =
    apiKey !== undefined || has('personal')
      ? null
      : { apiKey: randomKey(), apiToken: apiToken !== undefined || has('token') ? null : randomKey() };
  const known = [
    { kind: 'personal' as const, key: apiKey ?? temporary?.apiKey },
    { kind: 'token' as const, key: apiToken ?? temporary?.apiToken },
  ].flatMap(({ kind, key }) => (typeof key === 'string' ? [{ kind, key }] : []));
  const own = known.map(({ kind, key }) => fixedKey(kind, 'settings', key));
  return {
    keys: async () => [...own, ...(await stored())],
    temporary,
    secrets: known.map(({ key }) => key),
  };
}

function randomKey(): string {
  return randomBytes(32).toString('base64url');
}
