/** Replaces a secret. */
const MASK = '[secret]';

/** Texts of fewer characters are not masked: that would garble the log; a real key is longer. */
export const SHORTEST_SECRET = 4;

/** Masks every occurrence of secrets in a text, also as they look inside JSON and in an address. */
export function scrub(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of [...secrets].sort((a, b) => b.length - a.length)) {
    if (secret.length < SHORTEST_SECRET) continue;
    for (const form of new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])) {
      clean = clean.replaceAll(form, MASK);
    }
  }
  return clean;
}

/** Fields that hold words of this program, as the names of events: they keep their meaning even if a secret is such a word. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'name',
  'code',
  'event',
  'type',
  'trigger',
  'reason',
  'kind',
]);
const OWN_WORD = /^[a-z]+(?:[._-][a-z_]+)*$/;

/** A value as JSON with every text in it masked. */
export function maskedJson(value: object, mask: (text: string) => string): string {
  return JSON.stringify(value, (field, member: unknown) => {
    if (typeof member !== 'string' || (OWN_FIELDS.has(field) && OWN_WORD.test(member))) return member;
    return mask(member);
  });
}

/** A value of JSON with every text in it masked; one without secrets is returned unchanged. */
export function scrubbed<T extends object>(value: T, secrets: readonly string[]): T {
  const text = JSON.stringify(value);
  if (scrub(text, secrets) === text) return value;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only texts differ
  return JSON.parse(maskedJson(value, (member) => scrub(member, secrets))) as T;
}
