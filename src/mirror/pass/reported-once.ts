import { type Cached, cachedSentence } from '../upstream/answers.ts';
import type { Listing } from '../upstream/listing.ts';
import type { PassEventSink } from './events.ts';

/** The kinds of findings: wrong answers, caches that gave answers, settings that select nothing, targets that are lost. */
type Subject = 'problems' | 'cached lists' | 'cached contents' | 'unmatched' | 'lost';

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

/** Reports a cache that gave an answer in place of the service: once, and not again because its answer has another age. */
export function reportCached(
  {
    reported,
    emit,
    now,
  }: { readonly reported: ReportedOnce; readonly emit: PassEventSink; readonly now: () => number },
  subject: 'cached lists' | 'cached contents',
  cached: Cached | null,
): void {
  if (reported.news(subject, cached === null ? [] : [cached.via ?? '']).length === 0 || cached === null)
    return;
  emit({ name: 'listing.problem', problem: cachedSentence(cached, now()) });
}

/** The faults of the service's lists, a cache that gave them among these; a sentence each. @param nowMs milliseconds since the epoch */
export function problemsOf({ problems, cached }: Listing, nowMs: number): readonly string[] {
  return cached === null ? problems : [...problems, cachedSentence(cached, nowMs)];
}
