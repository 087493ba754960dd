import { LONGEST_TIMER_MS } from '../../lib/time/longest-timer.ts';
import type { PullAction } from '../plan/actions.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { Places } from '../../lib/concurrency/places.ts';
import { targetKey } from '../upstream/listing.ts';
import { createFairQueue, type Slots, type RunningPulls, type Waiting } from '../plan/fair-queue.ts';
import type { PassService } from '../upstream/client.ts';

/** A pull that waits for a slot. No two that wait, or go on, are of the same target. */
export interface QueuedPull<Result> extends Waiting {
  readonly action: PullAction;
  /** The service that it asks, which must stay open until the pull has ended. */
  readonly service: PassService;
  /** Begins it; never throws. */
  readonly begin: (turn: Turn) => BegunPull<Result>;
}

/** The turn of a pull that is begun. */
export interface Turn {
  /** Calls it off. */
  readonly signal: AbortSignal;
  /** Whether its pass still waits for it. */
  readonly isAwaited: () => boolean;
  /**
   * Waits for a place among the pulls that publish, and gives the slot to the next one: a publish waits for the disk, and many can
   * share a flush. To be called at most once.
   * @throws the reason of `signal`
   */
  readonly toPublish: (signal: AbortSignal) => Promise<void>;
}

/** A pull that was begun. */
export interface BegunPull<Result> {
  /** Resolves once the outcome is recorded; rejected by what would end every other pull, too. */
  readonly ended: Promise<Result>;
  /** Called once, if the pull takes long. Never throws. */
  readonly onSlow: () => void;
}

/** A pull that goes on. */
export interface RunningPull extends Pick<QueuedPull<unknown>, 'action' | 'service'> {
  /** Whether it has taken long, and counts as a prompt one no more. */
  readonly isSlow: boolean;
}

/** The limits of the scheduler. */
export interface SchedulerPolicy {
  readonly slots: Slots;
  /** A pull that takes longer gives its slot to the next one, in milliseconds. */
  readonly slowAfterMs: number;
}

/** Codes of errors that end every pull alike; the next pass finds out by itself whether they still hold. */
const FOUND_OUT_ANYWAY: ReadonlySet<string> = new Set(['pass.abandoned', 'credentials.refused']);

/** How many pulls without a slot publish at once. More of them share a flush, and hold more memory. */
const PUBLISHES_AT_ONCE = 32;

interface Entry extends RunningPull {
  isSlow: boolean;
  /** Gives the place among those that publish back; null for a pull that has a slot. */
  leave: (() => void) | null;
  readonly callOff: () => void;
  /** Never rejected. */
  readonly ended: Promise<void>;
}

/** Calls back once, after a time in milliseconds; returns a function that prevents the call. */
export type StartTimer = (onDue: () => void, afterMs: number) => () => void;

/** Called as a pull begins; returns a function to call as it ends. */
export type BeginWork = () => () => void;

const startTimeout: StartTimer = (onDue, afterMs) => {
  const timer = setTimeout(onDue, Math.min(afterMs, LONGEST_TIMER_MS));
  return () => clearTimeout(timer);
};

/**
 * Schedules the pulls. Where it outlasts the passes, a pass waits only until nothing prompt is left to do; slow pulls go on beside
 * the passes that follow, and what has found no slot yet gets one as it becomes free, until the next plan decides about it anew.
 */
export class PullScheduler<Result> {
  readonly #outlastsPasses: boolean;
  readonly #startTimer: StartTimer;
  readonly #beginWork: BeginWork;
  readonly #entries = new Map<string, Entry>();
  readonly #publishing = new Places(PUBLISHES_AT_ONCE);
  readonly #failures: unknown[] = [];
  #queue = createFairQueue<QueuedPull<Result>>([]);
  /** The results so far of the pulls of the waiting pass; null while no pass waits. */
  #results: Result[] | null = null;
  /** The service that the latest pulls ask; null where there were none. */
  #service: PassService | null = null;
  #policy: SchedulerPolicy = { slots: { prompt: 0, all: 0, shared: 0 }, slowAfterMs: 0 };
  /** Lets the waiting pass go on; null while no pass waits. */
  #onIdle: (() => void) | null = null;

  /** @param outlastsPasses whether slow pulls go on beside the passes */
  constructor(
    outlastsPasses: boolean,
    startTimer: StartTimer = startTimeout,
    beginWork: BeginWork = () => () => {},
  ) {
    this.#outlastsPasses = outlastsPasses;
    this.#startTimer = startTimer;
    this.#beginWork = beginWork;
  }

  /** Running pulls, by the keys of their targets. */
  running(): ReadonlyMap<string, RunningPull> {
    return this.#entries;
  }

  /** Whether pulls that wait or go on ask this service. */
  isUsing(service: PassService): boolean {
    return [...this.#entries.values(), ...this.#queue.waiting()].some((pull) => pull.service === service);
  }

  /**
   * Begins pulls, which all ask the same service, in a fair order, in place of all that waited before. Returns when
   * all have ended or, where the scheduler outlasts the passes, when only slow ones are left and what waits for their slots.
   * @returns the results of the pulls that ended meanwhile
   * @throws the error by which a pull was rejected: nothing more is begun then, and pulls that are waited for end before
   */
  async run(pulls: readonly QueuedPull<Result>[], policy: SchedulerPolicy): Promise<readonly Result[]> {
    this.#policy = policy;
    this.#service = pulls[0]?.service ?? null;
    // After a defect between two passes nothing more is begun.
    this.#queue = createFairQueue(this.#failures.length > 0 ? [] : pulls);
    const { promise: idle, resolve } = Promise.withResolvers<void>();
    const results: Result[] = [];
    this.#results = results;
    this.#onIdle = resolve;
    this.#advance();
    await idle;
    this.#onIdle = null;
    // Pulls that go on keep nothing of the pass in memory.
    this.#results = null;
    if (this.#failures.length > 0) throw this.#failures.splice(0)[0];
    return results;
  }

  /** Takes back what waits. */
  clear(): void {
    this.#queue = createFairQueue<QueuedPull<Result>>([]);
  }

  /** Ends pulls, by the keys of their targets, and waits for that; the errors by which they are rejected are not reported. */
  async callOff(keys: Iterable<string>): Promise<void> {
    const called = [...keys].flatMap((key) => this.#entries.get(key) ?? []);
    for (const { callOff } of called) callOff();
    await Promise.all(called.map(({ ended }) => ended));
  }

  /** As `callOff` those that go on and ask this service, and takes back what waits to ask it. */
  async callOffOf(service: PassService): Promise<void> {
    if (service === this.#service) this.clear();
    const asking = [...this.#entries].filter(([, entry]) => entry.service === service);
    await this.callOff(asking.map(([key]) => key));
  }

  /** As `callOff` all that go on, and takes back what waits. */
  async callOffAll(): Promise<void> {
    this.clear();
    await this.callOff(this.#entries.keys());
  }

  /** Takes back what waits, and waits for what goes on. */
  async drain(): Promise<void> {
    this.clear();
    await Promise.all([...this.#entries.values()].map(({ ended }) => ended));
  }

  /** Begins all that may, and lets the pass go on when nothing is left that it waits for. */
  #advance(): void {
    for (;;) {
      const next = this.#queue.take(withSlots(this.#entries), this.#policy.slots);
      if (next === null) break;
      this.#begin(next);
    }
    // What was begun may go on for hours, and its pass is not to stay in memory for that.
    if (this.#queue.isEmpty()) this.clear();
    const awaited = [...this.#entries.values()].filter(({ isSlow }) => !(isSlow && this.#outlastsPasses));
    if (awaited.length === 0) this.#onIdle?.();
  }

  #begin({ action, service, begin }: QueuedPull<Result>): void {
    const key = targetKey(action.target);
    const control = new AbortController();
    const endWork = this.#beginWork();
    const results = this.#results;
    const isAwaited = (): boolean => results !== null && this.#results === results;
    const toPublish = async (signal: AbortSignal): Promise<void> => {
      entry.leave = await this.#publishing.take(signal);
      this.#advance();
    };
    const { ended, onSlow } = begin({ signal: control.signal, isAwaited, toPublish });
    const stopTimer = this.#startTimer(() => {
      entry.isSlow = true;
      onSlow();
      this.#advance();
    }, this.#policy.slowAfterMs);
    const end = async (): Promise<void> => {
      try {
        const result = await ended;
        if (isAwaited()) results?.push(result);
      } catch (error) {
        if (!control.signal.aborted) this.#fail(error, service);
      }
      stopTimer();
      endWork();
      entry.leave?.();
      this.#entries.delete(key);
      this.#advance();
    };
    const entry: Entry = {
      action,
      service,
      isSlow: false,
      leave: null,
      callOff: () => control.abort(),
      ended: end(),
    };
    this.#entries.set(key, entry);
  }

  #fail(error: unknown, service: PassService): void {
    const isFoundOut = error instanceof MirrorError && FOUND_OUT_ANYWAY.has(error.code);
    // What a replaced client is refused says nothing about the pulls of the present one.
    if (isFoundOut && service !== this.#service) return;
    this.clear();
    // Between two passes there is nobody to be told at once.
    if (this.#onIdle !== null || !isFoundOut) this.#failures.push(error);
  }
}

/** The pulls that have slots. */
function withSlots(entries: ReadonlyMap<string, Entry>): RunningPulls {
  const all = [...entries.values()].filter(({ leave }) => leave === null);
  return {
    all: all.length,
    prompt: all.filter(({ isSlow }) => !isSlow).length,
    isOf: (repositoryId) => all.some(({ action }) => action.target.repositoryId === repositoryId),
  };
}
