/** A statement is false. */
export class NotMet extends Error {
  override readonly name = 'NotMet';
}

/** There is nothing to try a statement on. */
export class NotTried extends Error {
  override readonly name = 'NotTried';
}

/** @throws NotMet unless the condition holds */
export function holds(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotMet(otherwise);
}

/** @throws NotTried unless the condition holds */
export function given(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotTried(otherwise);
}

/** Makes sure that a list has an item. @throws NotTried for an empty list */
export function atLeastOne<T>(items: readonly T[], otherwise: string): readonly [T, ...T[]] {
  const [first, ...more] = items;
  given(first !== undefined, otherwise);
  return [first, ...more];
}

/**
 * Checks a statement on each of many items.
 * @param fault gives the fault of an item, or null
 * @returns `all`
 * @throws NotMet with the first few faults
 */
export function allHold<T>(items: readonly T[], fault: (item: T) => string | null): string {
  const faults = items.flatMap((item) => fault(item) ?? []);
  const shown = [...new Set(faults)].slice(0, 3).join('; ');
  holds(faults.length === 0, `${faults.length} of ${items.length}: ${shown}`);
  return items.length === 0 ? 'there are none' : 'all';
}
