/** The kinds of findings: wrong answers, settings that select nothing, targets that are lost. */
type Subject = 'problems' | 'unmatched' | 'lost';

/** Remembers the findings of the pass before, so that nothing is reported again while it lasts. */
export class ReportedOnce {
  readonly #known = new Map<Subject, ReadonlySet<string>>();

  /** Takes the findings of a pass. @returns those that the pass before did not have */
  news(subject: Subject, found: Iterable<string>): string[] {
    const before = this.#known.get(subject);
    const now = new Set(found);
    this.#known.set(subject, now);
    return [...now].filter((each) => before?.has(each) !== true);
  }
}
