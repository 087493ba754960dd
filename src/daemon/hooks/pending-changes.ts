import { type ChangeSpan, joinSpans } from '../../mirror/plan/due-hooks.ts';

/** Changes that are kept for all targets together, at most; a target whose list would be beyond it gets none. */
const CHANGES_KEPT = 200_000;

/** The lists of changed files that the command has not read yet, by target. Losing one costs the command a look at a tree. */
export interface Spans {
  readonly add: (target: string, span: ChangeSpan) => void;
  /** Takes a target's list out. */
  readonly take: (target: string) => ChangeSpan | undefined;
  /** Gives back what was taken out, as the command did not come to its end with it. */
  readonly giveBack: (target: string, span: ChangeSpan | undefined) => void;
  readonly clear: () => void;
}

/** Makes an empty set of lists. */
export function createSpans(): Spans {
  const spans = new Map<string, ChangeSpan>();
  let kept = 0;
  const take = (target: string): ChangeSpan | undefined => {
    const span = spans.get(target);
    spans.delete(target);
    kept -= span?.changes.length ?? 0;
    return span;
  };
  const put = (target: string, span: ChangeSpan): void => {
    if (kept + span.changes.length > CHANGES_KEPT) return;
    spans.set(target, span);
    kept += span.changes.length;
  };
  return {
    take,
    add: (target, span) => put(target, joinSpans(take(target), span)),
    giveBack: (target, span) => {
      const later = take(target);
      if (span === undefined) {
        if (later !== undefined) put(target, later);
      } else put(target, later === undefined ? span : joinSpans(span, later));
    },
    clear: () => {
      spans.clear();
      kept = 0;
    },
  };
}
