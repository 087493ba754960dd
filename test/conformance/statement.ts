import type { Subject } from './subject.ts';
import type { Need } from './verdict.ts';

/** What a statement is based on. */
export type Kind =
  /** The service specification says so. */
  | 'required'
  /** It need not be offered; what is offered must be right (RFC 9110 and the formats concerned). */
  | 'optional'
  /** The specification says "not shown": what is seen is told, and never wrong. */
  | 'observed';

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
