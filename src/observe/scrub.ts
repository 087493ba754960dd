/** What stands where a secret was. */
const MASK = '[secret]';

/** Texts so short that masking them would garble the log; a real key is longer. */
const SHORTEST_SECRET = 4;

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
