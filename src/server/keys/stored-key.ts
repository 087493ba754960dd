import { randomBytes, randomUUID } from 'node:crypto';

import { z } from 'zod';

import { MirrorError } from '../../lib/errors/errors.ts';
import { digestOfKey, KEY_KINDS, type KeyKind, type KnownKey } from '../http/keys.ts';

/** A key as it is kept on disk. */
export interface StoredKey extends KnownKey {
  readonly id: string;
  /** When it was made, ISO 8601 in UTC. */
  readonly createdAt: string;
}

/** A key that was just made. */
export interface NewKey {
  /** The key itself, which nobody can give again. */
  readonly key: string;
  readonly stored: StoredKey;
}

/** Begin keys, so that those who search for lost secrets know them; `wbs_` begins the secrets that sign webhooks. */
const PREFIXES: Readonly<Record<KeyKind, string>> = { personal: 'wbp_', group: 'wbg_', token: 'wbt_' };
const SIGNING_PREFIX = 'wbs_';

/** Nobody can guess as many bytes, nor try them all against a digest that was lost. */
const KEY_BYTES = 32;

/** Whether a text has the form of a key, or of a secret for signed webhooks: it is not to be repeated. */
export function looksLikeKey(text: string): boolean {
  return /^wb[pgts]_/.test(text);
}

function randomText(prefix: string): string {
  return `${prefix}${randomBytes(KEY_BYTES).toString('base64url')}`;
}

/** The longest name of a key, in bytes. */
const NAME_LIMIT_BYTES = 200;

/**
 * Checks the name of a key, which becomes the author of what is uploaded with it: Git takes no other characters for one
 * (git-commit-tree(1)).
 * @throws MirrorError `usage.invalid`
 */
function checkKeyName(name: string): void {
  const refuse = (why: string): never => {
    throw new MirrorError('usage.invalid', `the name ${JSON.stringify(name)} of a key ${why}.`, {
      hint: 'Give the name of a person, or of what sends the webhooks; it is the author of what is uploaded with the key.',
    });
  };
  if (!/[\p{L}\p{N}]/u.test(name) || name !== name.trim())
    refuse('holds no letter, or begins or ends with a space');
  if (/[\p{Cc}\p{Bidi_Control}\u2028\u2029<>]/u.test(name)) refuse('holds <, > or a control character');
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) refuse(`is longer than ${NAME_LIMIT_BYTES} bytes`);
}

/**
 * Makes a key of 256 random bits. One for webhooks comes with a secret to sign them with: to check a signature takes the secret
 * itself, which is why that cannot be the key, of which only the digest is kept.
 * @throws MirrorError `usage.invalid` for a name that cannot be an author
 */
export function makeKey(kind: KeyKind, name: string, createdAt: Date): NewKey {
  checkKeyName(name);
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

const fileSchema = z.object({
  kind: z.enum(KEY_KINDS),
  name: z.string().min(1),
  createdAt: z.iso.datetime({ offset: true }),
  sha256: z.string().regex(/^[0-9a-f]{64}$/i),
  // A short one could be guessed, and an empty one would sign whatever anybody sends.
  signingSecret: z.string().min(KEY_BYTES).nullable(),
});

/** The text of a key's file. */
export function renderKeyFile({ kind, name, createdAt, sha256, signingSecret }: StoredKey): string {
  return `${JSON.stringify({ kind, name, createdAt, sha256, signingSecret }, null, 2)}\n`;
}

/**
 * Reads the text of a key's file.
 * @param id what the file is called, which the text does not hold
 * @throws Error that says what is wrong, without a word of the text: that may hold a secret
 */
export function parseKeyFile(id: string, text: string): StoredKey {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('it is not JSON');
  }
  const parsed = fileSchema.safeParse(value);
  if (parsed.success) return { id, ...parsed.data };
  const fields = [...new Set(parsed.error.issues.map(({ path: [field] }) => field?.toString()))];
  const named = fields.filter((field) => field !== undefined);
  throw new Error(named.length === 0 ? 'it is no object' : `${named.join(', ')} cannot be right`);
}
