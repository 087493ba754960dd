/** How long a key may be, in bytes (Standard Webhooks specification, "Signature scheme"). */
export const SIGNING_KEY_BYTES = { least: 24, most: 64 } as const;

/** The bytes of a key to sign with, in base64 with or without `whsec_` before it; null for anything else. */
export function signingKey(text: string): Uint8Array | null {
  const encoded = text.replace(/^whsec_/, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return null;
  const bytes = Buffer.from(encoded, 'base64');
  const { least, most } = SIGNING_KEY_BYTES;
  return bytes.byteLength >= least && bytes.byteLength <= most ? bytes : null;
}
