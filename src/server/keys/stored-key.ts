import { randomBytes, randomUUID } from 'node:crypto';

import { z } from 'zod';

import { MirrorError } from '../../lib/errors/errors.ts';
import { digestOfKey, KEY_KINDS, type KeyKind } from './keys.ts';

/** The length of a key, and of a secret for signed webhooks, in random bytes. */
const KEY_BYTES = 32;

/** A key as stored on disk. */
export const storedKeySchema = z.object({
  id: z.string(),
  kind: z.enum(KEY_KINDS),
  name: z.string().min(1),
  /** Time of creation, ISO 8601 in UTC. */
  createdAt: z.iso.datetime({ offset: true }),
  sha256: z.string().regex(/^[0-9a-f]{64}$/i),
  // A short one could be guessed, and with an empty one anyone could sign.
  signingSecret: z.string().min(KEY_BYTES).nullable(),
});

export type StoredKey = Readonly<z.infer<typeof storedKeySchema>>;

/** A new key. */
export interface NewKey {
  /** The key itself, which is not stored. */
  readonly key: string;
  readonly stored: StoredKey;
}

/** Prefixes of keys, for secret scanners; `wbs_` is the prefix of secrets that sign webhooks. */
const PREFIXES: Readonly<Record<KeyKind, string>> = { personal: 'wbp_', group: 'wbg_', token: 'wbt_' };
const SIGNING_PREFIX = 'wbs_';

/** Whether a text has the form of a key or of a webhook secret, and so must not be shown. */
export function looksLikeKey(text: string): boolean {
  return /^wb[pgts]_/.test(text);
}

function randomText(prefix: string): string {
  return `${prefix}${randomBytes(KEY_BYTES).toString('base64url')}`;
}

/** The longest name of a key, in characters. */
const LONGEST_NAME = 200;

/** Git accepts no other name for an author (git-commit-tree(1)). */
function canBeAuthor(name: string): boolean {
  return (
    /[\p{L}\p{N}]/u.test(name) &&
    name === name.trim() &&
    name.length <= LONGEST_NAME &&
    !/[\p{Cc}\p{Bidi_Control}\u2028\u2029<>]/u.test(name)
  );
}

/**
 * Makes a key of 256 random bits. A group key comes with a secret to sign webhooks with: checking a signature needs the
 * secret itself, but only the digest of the key is stored.
 * @throws MirrorError `usage.invalid` for a name that cannot be an author
 */
export function makeKey(kind: KeyKind, name: string, createdAt: Date): NewKey {
  if (!canBeAuthor(name)) {
    const message = `${JSON.stringify(name)} cannot be the name of a key: it needs a letter or digit, at most ${LONGEST_NAME} characters, no <, > or control character, and no space at its ends.`;
    throw new MirrorError('usage.invalid', message, {
      hint: 'Give the name of a person or of the sender of webhooks; it becomes the author of uploads with the key.',
    });
  }
  const key = randomText(PREFIXES[kind]);
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
