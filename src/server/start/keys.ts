import { randomBytes } from 'node:crypto';

import type { Settings } from '../../config/schema.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { readKeys } from '../keys/key-file.ts';
import type { KeyKind } from '../../lib/api/requests.ts';
import { fixedKey, type Keys } from '../keys/keys.ts';

/** Keys that are valid until the service stops. */
export interface TemporaryKeys {
  readonly apiKey: string;
  /** Null if there is a token already. */
  readonly apiToken: string | null;
}

/**
 * The keys of a service: keys from the settings, keys from its directory, read at each request, and, without a personal key,
 * temporary ones that are valid until it stops.
 * @returns also the keys known in plain text, which must not be shown
 * @throws MirrorError `directory.unusable` for a damaged file of keys
 */
export async function openServedKeys(settings: Settings['serve']) {
  const { directory } = settings;
  const stored: Keys =
    directory === undefined ? () => Promise.resolve([]) : shareWork(() => readKeys(directory));
  const found = await stored();
  const apiKey = settings.apiKey?.reveal();
  const apiToken = settings.apiToken?.reveal();
  const has = (kind: KeyKind): boolean => found.some((key) => key.kind === kind);
  const temporary: TemporaryKeys | null =
    apiKey !== undefined || has('personal')
      ? null
      : { apiKey: randomKey(), apiToken: apiToken !== undefined || has('token') ? null : randomKey() };
  const known = [
    { kind: 'personal' as const, key: apiKey ?? temporary?.apiKey },
    { kind: 'token' as const, key: apiToken ?? temporary?.apiToken },
  ].flatMap(({ kind, key }) => (typeof key === 'string' ? [{ kind, key }] : []));
  const own = known.map(({ kind, key }) => fixedKey(kind, 'settings', key));
  return {
    keys: async (): ReturnType<Keys> => [...own, ...(await stored())],
    temporary,
    secrets: known.map(({ key }) => key),
  };
}

function randomKey(): string {
  return randomBytes(32).toString('base64url');
}
