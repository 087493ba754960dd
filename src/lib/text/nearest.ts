import leven from 'leven';

/**
 * The candidate that is most similar to a name, ignoring case; the first of several. Undefined without candidates.
 *
 * A name without a dot is also compared with the last part of a dotted candidate: `apiKey` is near `service.apiKey`.
 */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  // Long names say nothing more, and the comparison takes the product of both lengths.
  const wanted = name.slice(0, 100).toLowerCase();
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const distance = distanceBetween(wanted, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** If more than this share of the longer name differs, the names are unrelated. */
const GREATEST_DIFFERENCE = 0.4;

/** The candidate that may have been meant: it differs little from the name, contains it, or is contained in it. */
export function likely(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.slice(0, 100).toLowerCase();
  const ranked = [...candidates]
    .map((candidate) => ({ candidate, distance: leven(wanted, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const length = (candidate: string): number => Math.max(wanted.length, candidate.length);
  const close = ranked.find(
    ({ candidate, distance }) => distance <= Math.max(1, GREATEST_DIFFERENCE * length(candidate)),
  );
  if (close !== undefined || wanted.length < 3) return close?.candidate;
  const holds = (candidate: string): boolean => candidate.includes(wanted) || wanted.includes(candidate);
  return ranked.find(({ candidate }) => holds(candidate.toLowerCase()))?.candidate;
}

function distanceBetween(wanted: string, candidate: string): number {
  const whole = leven(wanted, candidate);
  if (wanted.includes('.') || !candidate.includes('.')) return whole;
  // Half a step behind an equally similar whole candidate.
  return Math.min(whole, leven(wanted, candidate.slice(candidate.lastIndexOf('.') + 1)) + 0.5);
}
