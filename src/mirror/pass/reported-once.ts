/** What passes report: wrong answers, settings that select nothing, targets that are lost. */
type Subject = 'problems' | 'unmatched' | 'lost';

/** Knows what the pass before found, so that nothing is reported again while it stays as it is. */
export class ReportedOnce {
  readonly #known = new Map<Subject, ReadonlySet<string>>();

  /** Takes what a pass found. @returns what of it is new */
  news(subject: Subject, found: Iterable<string>): string[] {
    const before = this.#known.get(subject);
    const now = new Set(found);
    this.#known.set(subject, now);
    return [...now].filter((each) => before?.has(each) !== true);
  }
}
