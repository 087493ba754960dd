import { createHash } from 'node:crypto';

/** The kinds of keys. */
export const KEY_KINDS = ['personal', 'group', 'token'] as const;

/** The use of a key (service specification, section 5): the current API, incoming webhooks only, or v1. */
export type KeyKind = (typeof KEY_KINDS)[number];

/** A key that the service knows. Only its digest is stored. */
export interface KnownKey {
  readonly kind: KeyKind;
  /** The owner's name: the author of uploads with this key. */
  readonly name: string;
  /** SHA-256 of the key, in hexadecimal digits. */
  readonly sha256: string;
  /** Signs webhooks in place of the key itself; null if the key signs nothing. */
  readonly signingSecret: string | null;
}

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

/** The keys that equal a text. The timing may reveal digests, but no key can be computed from those. */
function keysOf(keys: readonly KnownKey[], sent: string): readonly KnownKey[] {
  const digest = digestOfKey(sent);
  return keys.filter(({ sha256 }) => sha256.toLowerCase() === digest);
}

/** Finds the key that a client sent. */
export function findKey(keys: readonly KnownKey[], sent: string): KnownKey | null {
  return keysOf(keys, sent)[0] ?? null;
}

/** Finds the sent key among keys of this kind. The same text may also be a key of another kind. */
export function findKeyOfKind(keys: readonly KnownKey[], kind: KeyKind, sent: string): KnownKey | null {
  return keysOf(keys, sent).find((key) => key.kind === kind) ?? null;
}
