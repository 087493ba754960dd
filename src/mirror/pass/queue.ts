import { sinceMs } from '../../lib/time/monotonic.ts';
import type { EndedResult, PullAction } from '../plan/actions.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import type { PassService } from '../upstream/client.ts';
import type { PassEventSink } from './events.ts';

/** The facts about a waiting pull that decide when it begins. */
export interface Waiting {
  readonly action: { readonly target: Pick<TargetId, 'repositoryId'> };
  /** Since when its target waits, in milliseconds since the epoch; 0 for always. */
  readonly waitingSinceMs: number;
  /** The approximate size of the download, in bytes; null if unknown. */
  readonly sizeBytes: number | null;
}

/** A pull that waits for a slot. A target has at most one waiting or running pull. */
export interface QueuedPull extends Waiting {
  readonly action: PullAction;
  /** The client that it uses, which must stay open until the pull has ended. */
  readonly service: PassService;
  /** Pulls, and records the outcome. @throws errors that would end every other pull, too */
  readonly run: (controls: PullControls) => Promise<EndedResult>;
}

/** The controls of a pull that has begun. */
export interface PullControls {
  /** Cancels it. */
  readonly signal: AbortSignal;
  /**
   * Waits for a publishing slot, and frees the download slot for the next pull: a publish waits for the
   * disk, and many can share a flush. Call it at most once.
   * @throws the reason of `signal`
   */
  readonly toPublish: (signal: AbortSignal) => Promise<void>;
}

/** The limits of the queue. */
export interface QueueLimits {
  /** Downloads at once; one more while one is slow, up to {@link TIMES_WITH_SLOW} times as many. */
  readonly concurrency: number;
  /** A pull that takes longer is slow, in milliseconds. */
  readonly slowAfterMs: number;
}

/** The most downloads in all, slow ones included, as a multiple of the prompt ones. */
const TIMES_WITH_SLOW = 4;

/** How many pulls publish at once. More of them share a flush, and hold more memory. */
const PUBLISHES_AT_ONCE = 32;

/** Codes of errors that the next pass will meet as well, if they persist. */
const FOUND_OUT_ANYWAY: ReadonlySet<string> = new Set(['pass.abandoned', 'credentials.refused']);

/** A running pull. */
export interface RunningPull extends QueuedPull {
  /** Whether it is slow, so that passes do not wait for it. */
  isSlow: boolean;
  /** Frees its publishing slot; null for a download. */
  leave: (() => void) | null;
  readonly control: AbortController;
  /** Never rejects. */
  ended: Promise<void>;
}

/** A pass that waits for its pulls. */
interface WaitingPass {
  readonly results: EndedResult[];
  readonly goOn: () => void;
}

/** Calls back once, after a time in milliseconds; returns a function that prevents the call. */
function startTimeout(onDue: () => void, afterMs: number): () => void {
  const timer = setTimeout(onDue, afterMs);
  return () => clearTimeout(timer);
}

/**
 * The queue of pulls, with one limit for downloads and one for publishes. If it outlasts the passes, a pass waits only for prompt
 * pulls: slow ones continue during later passes, and waiting ones begin as slots become free, until the next plan.
 */
export class PullQueue {
  readonly #outlastsPasses: boolean;
  readonly #emit: PassEventSink;
  readonly #startTimer: typeof startTimeout;
  readonly #running = new Map<string, RunningPull>();
  readonly #publishing = new Places(PUBLISHES_AT_ONCE);
  readonly #failures: unknown[] = [];
  /** Services that the settings no longer name. */
  readonly #left = new WeakSet<PassService>();
  /** Reversed: the last element is the next pull. */
  #waiting: QueuedPull[] = [];
  #pass: WaitingPass | null = null;
  #limits: QueueLimits = { concurrency: 0, slowAfterMs: 0 };

  /**
   * @param outlastsPasses whether slow pulls go on beside the passes
   * @param emit takes the events of slow pulls
   */
  constructor(outlastsPasses: boolean, emit: PassEventSink, startTimer = startTimeout) {
    this.#outlastsPasses = outlastsPasses;
    this.#emit = emit;
    this.#startTimer = startTimer;
  }

  /** Running pulls, by the keys of their targets. */
  running(): ReadonlyMap<string, Readonly<RunningPull>> {
    return this.#running;
  }

  /** Whether waiting or running pulls use this service. */
  isUsing(service: PassService): boolean {
    return [...this.#running.values(), ...this.#waiting].some((pull) => pull.service === service);
  }

  /**
   * Replaces the waiting pulls by these. Returns when all have ended or, if the queue outlasts the passes, when only slow
   * and waiting ones are left.
   * @returns the results of the given pulls that have ended
   * @throws the error that a pull rejected with: then nothing more begins, and the awaited pulls end first
   */
  async run(pulls: readonly QueuedPull[], limits: QueueLimits): Promise<readonly EndedResult[]> {
    this.#limits = limits;
    const wanted = pulls.filter(({ service }) => !this.#left.has(service));
    // After a defect between two passes nothing more begins.
    this.#waiting = this.#failures.length > 0 ? [] : inFairOrder(wanted).toReversed();
    const { promise: idle, resolve } = Promise.withResolvers<void>();
    const pass: WaitingPass = { results: [], goOn: resolve };
    this.#pass = pass;
    this.#advance();
    await idle;
    this.#pass = null;
    if (this.#failures.length > 0) throw this.#failures.splice(0)[0];
    // A slow pull that outlasts the pass keeps none of its results in memory.
    return pass.results.splice(0);
  }

  /** Drops the waiting pulls. @returns how many there were */
  clear(): number {
    return this.#waiting.splice(0).length;
  }

  /** Drops waiting pulls, cancels the running ones, and waits for their ends. Their errors are not reported. */
  async callOff(isMeant: (pull: Pick<QueuedPull, 'action' | 'service'>) => boolean): Promise<void> {
    this.#waiting = this.#waiting.filter((pull) => !isMeant(pull));
    const called = [...this.#running.values()].filter(isMeant);
    for (const { control } of called) control.abort();
    await Promise.all(called.map(({ ended }) => ended));
  }

  /** Calls off the pulls from a service, and lets a running pass begin none of them. */
  leave(service: PassService): Promise<void> {
    this.#left.add(service);
    return this.callOff((pull) => pull.service === service);
  }

  /** Drops the waiting pulls, and waits for the running ones. */
  async drain(): Promise<void> {
    this.clear();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  /** Begins all pulls that may begin, and lets the pass go on when it has nothing left to wait for. */
  #advance(): void {
    while (this.#isPlaceFree()) {
      const next = this.#waiting.pop();
      if (next === undefined) break;
      this.#begin(next);
    }
    const isAwaited = ({ isSlow }: RunningPull): boolean => !(isSlow && this.#outlastsPasses);
    if (![...this.#running.values()].some(isAwaited)) this.#pass?.goOn();
  }

  #isPlaceFree(): boolean {
    const { concurrency } = this.#limits;
    const downloads = [...this.#running.values()].filter(({ leave }) => leave === null);
    const prompt = downloads.filter(({ isSlow }) => !isSlow).length;
    return prompt < concurrency && downloads.length < concurrency * TIMES_WITH_SLOW;
  }

  #begin(pull: QueuedPull): void {
    const control = new AbortController();
    const running: RunningPull = { ...pull, isSlow: false, leave: null, control, ended: Promise.resolve() };
    this.#running.set(targetKey(pull.action.target), running);
    running.ended = this.#run(running, this.#pass);
  }

  async #run(running: RunningPull, pass: WaitingPass | null): Promise<void> {
    const { action, run, control } = running;
    const { signal } = control;
    const startedAtMs = Date.now();
    const beganMs = performance.now();
    const stopTimer = this.#startTimer(() => {
      running.isSlow = true;
      this.#emit({ name: 'target.slow', target: action.path, startedAtMs });
      this.#advance();
    }, this.#limits.slowAfterMs);
    const toPublish = async (until: AbortSignal): Promise<void> => {
      running.leave = await this.#publishing.take(until);
      this.#advance();
    };
    let ended: string;
    try {
      const result = await run({ signal, toPublish });
      ended = result.outcome.kind;
      if (pass !== null && pass === this.#pass) pass.results.push(result);
    } catch (error) {
      const { code } = toMirrorError(error);
      ended = code === 'pass.abandoned' ? 'called off' : code;
      if (!signal.aborted) {
        this.clear();
        // Between two passes no caller waits for an error; the next pass will meet it as well.
        if (this.#pass !== null || !FOUND_OUT_ANYWAY.has(code)) this.#failures.push(error);
      }
    }
    stopTimer();
    running.leave?.();
    this.#running.delete(targetKey(action.target));
    if (running.isSlow) {
      const durationMs = sinceMs(beganMs);
      this.#emit({ name: 'target.slow_ended', target: action.path, result: ended, durationMs });
    }
    this.#advance();
  }
}

/**
 * Orders pulls: first one of every repository, then a second one, and so on, so that a repository with
 * many branches does not delay the others. In each round the longest-waiting pull comes first; if two have waited
 * as long, the one that is known to be small.
 */
export function inFairOrder<Pull extends Waiting>(pulls: readonly Pull[]): Pull[] {
  const rounds: Pull[][] = [];
  const taken = new Map<string, number>();
  for (const pull of pulls.toSorted(byNeed)) {
    const { repositoryId } = pull.action.target;
    const round = taken.get(repositoryId) ?? 0;
    taken.set(repositoryId, round + 1);
    (rounds[round] ??= []).push(pull);
  }
  return rounds.flat();
}

function byNeed(one: Waiting, other: Waiting): number {
  const size = ({ sizeBytes }: Waiting): number => sizeBytes ?? Number.MAX_SAFE_INTEGER;
  return one.waitingSinceMs - other.waitingSinceMs || size(one) - size(other);
}
