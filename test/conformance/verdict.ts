/** What a check cannot do without. */
export type Need = 'token' | 'group-key' | 'writes' | 'external-url';

/** A statement that does not hold. */
export class NotMet extends Error {
  override readonly name = 'NotMet';
}

/** There is nothing to try a statement on. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable';
}

/** @throws NotMet unless the condition holds */
export function holds(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotMet(otherwise);
}

/** @throws NotApplicable unless the condition holds */
export function given(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new NotApplicable(otherwise);
}

/** @throws NotMet with the first few items that are wrong, if any is */
export function allHold<T>(items: readonly T[], wrong: (item: T) => string | null): void {
  const faults = items.flatMap((item) => wrong(item) ?? []);
  const shown = [...new Set(faults)].slice(0, 3).join('; ');
  holds(faults.length === 0, `${faults.length} of ${items.length}: ${shown}`);
}
