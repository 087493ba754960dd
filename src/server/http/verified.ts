import { LAST_VERIFIED_HEADER } from '../../lib/api/replica-headers.ts';

/**
 * The header that says how old an answer of a replica may be: when it was last known to be what the original has.
 * @param verifiedAtMs milliseconds since the epoch; null or undefined where nobody says
 */
export function verifiedHeader(verifiedAtMs: number | null | undefined): Readonly<Record<string, string>> {
  if (verifiedAtMs === null || verifiedAtMs === undefined) return {};
  return { [LAST_VERIFIED_HEADER]: new Date(verifiedAtMs).toISOString() };
}
