import { createHash, randomBytes, randomUUID } from 'node:crypto';

import { z } from 'zod';

import { KEY_KINDS, type KeyKind } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** The length of a key, and of a secret for signed webhooks, in random bytes. */
const KEY_BYTES = 32;

/** A key as stored on disk: only its digest is. */
export const storedKeySchema = z.object({
  id: z.string(),
  kind: z.enum(KEY_KINDS),
  /** The owner's name: the author of uploads with this key. */
  name: z.string().min(1),
  /** Time of creation, ISO 8601 in UTC. */
  createdAt: z.iso.datetime({ offset: true }),
  /** SHA-256 of the key, in hexadecimal digits. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/i),
  /** Signs webhooks in place of the key itself; null if the key signs nothing. With an empty or short one, anyone could sign. */
  signingSecret: z.string().min(KEY_BYTES).nullable(),
});

export type StoredKey = Readonly<z.infer<typeof storedKeySchema>>;

/** A key that the service knows. */
export type KnownKey = Pick<StoredKey, 'kind' | 'name' | 'sha256' | 'signingSecret'>;

/** Gives the currently valid keys. Called with every request. */
export type Keys = () => Promise<readonly KnownKey[]>;

/** The digest under which a key is kept. It needs neither salt nor a slow hash: a key is random and long. */
export function digestOfKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

/** A key given in plain text, as in the settings. */
export function fixedKey(kind: KeyKind, name: string, key: string): KnownKey {
  return { kind, name, sha256: digestOfKey(key), signingSecret: null };
}

/**
 * Finds the key that a client sent. The timing may reveal digests, but no key can be computed from those.
 * @param kind only keys of this kind, if given: the same text may also be a key of another kind
 */
export function findKey(keys: readonly KnownKey[], sent: string, kind?: KeyKind): KnownKey | null {
  const digest = digestOfKey(sent);
  const isIt = (key: KnownKey): boolean => kind === undefined || key.kind === kind;
  return keys.find((key) => key.sha256.toLowerCase() === digest && isIt(key)) ?? null;
}

/** Prefixes of keys, for secret scanners. Never change them: existing keys keep their prefix. `wbs_` is the prefix of secrets that sign webhooks. */
export const KEY_PREFIXES: Readonly<Record<KeyKind, string>> = {
  personal: 'wbp_',
  group: 'wbg_',
  token: 'wbt_',
};
const SIGNING_PREFIX = 'wbs_';

/** Whether a text has the form of a key or of a webhook secret, and so must not be shown. */
export function looksLikeKey(text: string): boolean {
  return /^wb[pgts]_/.test(text);
}

function randomText(prefix: string): string {
  return `${prefix}${randomBytes(KEY_BYTES).toString('base64url')}`;
}

/** A name that Git accepts for an author (git-commit-tree(1)), and that can be shown. */
const NAME = /^(?=.*[\p{L}\p{N}])(?!\s|.*\s$)[^\p{Cc}\p{Bidi_Control}\u2028\u2029<>]{1,200}$/u;

/**
 * Makes a key of 256 random bits. A group key comes with a secret to sign webhooks with: checking a signature needs the
 * secret itself, but only the digest of the key is stored.
 * @returns the key itself, and its stored form
 * @throws MirrorError `usage.invalid` for a name that cannot be an author
 */
export function makeKey(kind: KeyKind, name: string, createdAt: Date) {
  if (!NAME.test(name)) {
    const message = `${JSON.stringify(name)} cannot be the name of a key: it needs a letter or digit, at most 200 characters, no <, > or control character, and no space at its ends.`;
    throw new MirrorError('usage.invalid', message, {
      hint: 'Give the name of a person or of the sender of webhooks; it becomes the author of uploads with the key.',
    });
  }
  const key = randomText(KEY_PREFIXES[kind]);
  const stored: StoredKey = {
    id: randomUUID(),
    kind,
    name,
    createdAt: createdAt.toISOString(),
    sha256: digestOfKey(key),
    signingSecret: kind === 'group' ? randomText(SIGNING_PREFIX) : null,
  };
  return { key, stored };
}
