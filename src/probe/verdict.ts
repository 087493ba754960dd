/** A statement is false, or there is nothing to try it on. The message is the answer in the report. */
export class NotMet extends Error {
  override readonly name = 'NotMet';
  readonly outcome: 'differs' | 'not tried';

  constructor(answer: string, outcome: NotMet['outcome'] = 'differs') {
    super(answer);
    this.outcome = outcome;
  }
}

/** @throws NotMet unless the condition holds */
export function holds(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotMet(otherwise);
}

/** @throws NotMet if there is nothing to try a statement on */
export function given(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotMet(otherwise, 'not tried');
}

/** Makes sure that a list has an item. @throws NotMet */
export function atLeastOne<T>(items: readonly T[], otherwise: string): readonly [T, ...T[]] {
  const [first, ...more] = items;
  given(first !== undefined, otherwise);
  return [first, ...more];
}

/** The result; null if it is not as specified, or cannot be tried. */
export async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof NotMet) return null;
    throw error;
  }
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
