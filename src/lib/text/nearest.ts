import leven from 'leven';

/** If more than this share of the longer name differs, the names are unrelated. */
const GREATEST_DIFFERENCE = 0.4;

/** The candidate that may have been meant: it differs little from the name, contains it, or is contained in it; ignores case. */
export function likely(name: string, candidates: Iterable<string>): string | undefined {
  const { wanted, found } = ranked(name, candidates);
  const close = found.find(({ candidate, distance }) => {
    const length = Math.max(wanted.length, candidate.length);
    return distance <= Math.max(1, GREATEST_DIFFERENCE * length);
  });
  if (close !== undefined || wanted.length < 3) return close?.candidate;
  const holds = (candidate: string): boolean => candidate.includes(wanted) || wanted.includes(candidate);
  return found.find(({ candidate }) => holds(candidate.toLowerCase()))?.candidate;
}

/**
 * The most similar candidate, ignoring case; the first of several. Undefined without candidates. A name without a dot is also
 * compared with the last part of a dotted candidate: `apiToken` is nearer to `service.apiToken` than to `http.token`.
 */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  return ranked(name, candidates, distanceToDotted).found[0]?.candidate;
}

function distanceToDotted(wanted: string, candidate: string): number {
  const whole = leven(wanted, candidate);
  if (wanted.includes('.')) return whole;
  // Half a step behind an equally similar whole candidate.
  return Math.min(whole, leven(wanted, candidate.slice(candidate.lastIndexOf('.') + 1)) + 0.5);
}

/** The candidates with their distance from a name, ignoring case: the most similar first. */
function ranked(name: string, candidates: Iterable<string>, distanceBetween = leven) {
  // Long names say nothing more, and the comparison takes the product of both lengths.
  const wanted = name.slice(0, 100).toLowerCase();
  const found = [...candidates]
    .map((candidate) => ({ candidate, distance: distanceBetween(wanted, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return { wanted, found };
}
