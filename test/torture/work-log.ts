/** A line of an instance's log, as far as this looks at it. */
export interface LogLine {
  readonly time: string;
  readonly level: string;
  readonly event?: string;
  readonly target?: string;
  readonly durationMs?: number;
  readonly [field: string]: unknown;
}

interface Work {
  /** The life of an instance: one from its start to its end. */
  readonly life: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Collects when which target was worked on, by the logs of all instances. */
export class WorkLog {
  private readonly begun = new Map<string, number>();
  private readonly work = new Map<string, Work[]>();
  pulled = 0;
  published = 0;

  take(life: number, { time, event, target, durationMs, method }: LogLine): void {
    if (target === undefined) return;
    const key = `${life} ${target}`;
    const atMs = Date.parse(time);
    if (event === 'target.started') {
      this.begun.set(key, atMs);
      // Also where it comes to no end: who says that it starts has the target's lock.
      this.add(target, { life, fromMs: atMs, toMs: atMs });
    } else if (event === 'target.pulled') {
      this.pulled += 1;
      if (method !== 'none') this.published += 1;
      const fromMs = this.begun.get(key);
      // The line is written after the lock was given back; the duration was measured before.
      if (fromMs !== undefined) this.add(target, { life, fromMs, toMs: fromMs + (durationMs ?? 0) });
      this.begun.delete(key);
    }
  }

  /** The targets that two instances worked on at once. */
  overlaps(): string[] {
    return [...this.work].flatMap(([target, work]) => overlapsIn(target, work));
  }

  private add(target: string, work: Work): void {
    const known = this.work.get(target);
    if (known === undefined) this.work.set(target, [work]);
    else known.push(work);
  }
}

function overlapsIn(target: string, work: readonly Work[]): string[] {
  const found: string[] = [];
  let longest: Work | null = null;
  for (const each of work.toSorted((one, other) => one.fromMs - other.fromMs)) {
    if (longest !== null && longest.life !== each.life && each.fromMs < longest.toMs)
      found.push(`worked on twice at once: ${target}: ${JSON.stringify([longest, each])}`);
    if (longest === null || each.toMs > longest.toMs) longest = each;
  }
  return found;
}
