import type { Subject } from './subject.ts';

/** What a statement is based on. */
export type Kind =
  /** The service specification says so. */
  | 'required'
  /** It need not be offered; what is offered must be right (RFC 9110 and the formats concerned). */
  | 'optional'
  /** The specification says "not shown": what is seen is told, and never wrong. */
  | 'observed';

/** What a check cannot do without. */
export type Need = 'token' | 'group-key' | 'writes' | 'external-url';

/** A statement about the service that a client can see for itself. */
export interface Statement {
  /** Stable, to name it in reports and tests. */
  readonly id: string;
  /** Section of the service specification; of a statement that is optional, the one that it belongs to. */
  readonly section: string;
  readonly statement: string;
  readonly kind: Kind;
  readonly needs?: readonly Need[];
  /**
   * Finds out whether it holds.
   * @returns what was seen, in a few words
   * @throws NotMet when it does not hold, NotApplicable when there is nothing to try it on
   */
  readonly check: (subject: Subject) => Promise<string>;
}

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
