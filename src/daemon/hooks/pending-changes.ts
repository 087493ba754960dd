import { type ChangeSpan, joinSpans } from './due-hooks.ts';

/** Changes that are kept for all targets together, at most; a target whose list would be beyond it gets none. */
const CHANGES_KEPT = 200_000;

/** The lists of changed files that the command has not read yet, by target. Losing one costs the command a look at a tree. */
export class PendingChanges {
  readonly #spans = new Map<string, ChangeSpan>();
  #kept = 0;

  add(target: string, span: ChangeSpan): void {
    this.#put(target, joinSpans(this.take(target), span));
  }

  /** Takes a target's list out. */
  take(target: string): ChangeSpan | undefined {
    const span = this.#spans.get(target);
    this.#spans.delete(target);
    this.#kept -= span?.changes.length ?? 0;
    return span;
  }

  /** Gives back what was taken out, as the command did not come to its end with it. */
  giveBack(target: string, span: ChangeSpan): void {
    const later = this.take(target);
    this.#put(target, later === undefined ? span : joinSpans(span, later));
  }

  clear(): void {
    this.#spans.clear();
    this.#kept = 0;
  }

  #put(target: string, span: ChangeSpan): void {
    if (this.#kept + span.changes.length > CHANGES_KEPT) return;
    this.#spans.set(target, span);
    this.#kept += span.changes.length;
  }
}
