import leven from 'leven';

/**
 * The candidate that is most like a name, letter case aside; the first of several. Undefined without candidates.
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

function distanceBetween(wanted: string, candidate: string): number {
  const whole = leven(wanted, candidate);
  if (wanted.includes('.') || !candidate.includes('.')) return whole;
  // Half a step behind a candidate that is as near as a whole.
  return Math.min(whole, leven(wanted, candidate.slice(candidate.lastIndexOf('.') + 1)) + 0.5);
}
