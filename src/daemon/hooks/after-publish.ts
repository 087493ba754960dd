import { eventFailure } from '../../mirror/pass/events.ts';
import {
  type ChangeSpan,
  type DueHook,
  dueForTree,
  dueHooks,
  isSameTarget,
  knownChanges,
  toldTree,
  type ToldTree,
} from '../../mirror/plan/due-hooks.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { AfterPublishPorts, HookCommand } from './ports.ts';
import { createRetries } from './retries.ts';
import { createSpans } from './pending-changes.ts';
import { tellTree } from './run-hook.ts';

/** The command after publishing: run for one target at a time, beside the passes. */
export interface AfterPublish {
  /** A target has a new state, which is durable and visible. */
  readonly onPublished: (target: string, span: ChangeSpan) => void;
  /** Something moved, left the mirror, or may be due from before: everything that stands is looked at. */
  readonly lookAtAll: () => void;
  /** Waits until everything that is due now was run; gives for how many targets it failed and is still due. */
  readonly settled: () => Promise<number>;
  /** Begins no further one, and gives the running one so long to end, in milliseconds, before it is stopped. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/**
 * Makes the queue of the command after publishing. What it was told to its success is remembered by target, and compared with
 * what stands: so it is run at least once for every state that lasts, across crashes, and once for several states that came
 * while it was busy.
 */
export function createAfterPublish(ports: AfterPublishPorts): AfterPublish {
  const queue = new Queue(ports);
  return {
    onPublished: (target, span) => queue.onPublished(target, span),
    lookAtAll: () => queue.lookAtAll(),
    settled: () => queue.settled(),
    close: (timeoutMs) => queue.close(timeoutMs),
  };
}

/** The shortest wait between two looks at what is due again, in milliseconds. */
const LEAST_WAIT_MS = 100;

class Queue implements AfterPublish {
  readonly #ports: AfterPublishPorts;
  readonly #told = new Map<string, ToldTree>();
  readonly #due = new Map<string, DueHook>();
  readonly #hinted = new Set<string>();
  readonly #spans = createSpans();
  readonly #retries = createRetries(Math.random);
  readonly #stop = new AbortController();
  #isRecalled = false;
  #isAllToBeSeen = false;
  /** Whether it could not be found out what is due. */
  #isBlind = false;
  #isClosing = false;
  #working: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: AfterPublishPorts) {
    this.#ports = ports;
  }

  onPublished(target: string, span: ChangeSpan): void {
    if (this.#ports.command() === null) return;
    this.#spans.add(target, span);
    this.#hinted.add(target);
    this.#wake();
  }

  lookAtAll(): void {
    this.#isAllToBeSeen = true;
    this.#wake();
  }

  async settled(): Promise<number> {
    while (this.#working !== null) await this.#working;
    return this.#due.size + (this.#isBlind ? 1 : 0);
  }

  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    const timer = setTimeout(() => this.#stop.abort(), timeoutMs);
    await this.#working;
    clearTimeout(timer);
  }

  #wake(): void {
    if (this.#isClosing || this.#working !== null) return;
    clearTimeout(this.#timer);
    this.#working = this.#work().finally(() => {
      this.#working = null;
      if (this.#isAllToBeSeen || this.#hinted.size > 0) this.#wake();
      else this.#wakeLater();
    });
  }

  #wakeLater(): void {
    const delayMs = this.#retries.nextInMs();
    if (delayMs === null || this.#isClosing) return;
    this.#timer = setTimeout(() => this.#wake(), Math.max(LEAST_WAIT_MS, delayMs));
    this.#timer.unref();
  }

  async #work(): Promise<void> {
    for (;;) {
      const command = this.#ports.command();
      if (command === null) {
        this.#forgetAll();
        return;
      }
      if (!(await this.#refresh())) return;
      const next = [...this.#due.values()].find(({ target }) => this.#retries.isDue(target));
      if (next === undefined || this.#isClosing) return;
      await this.#run(command, next);
    }
  }

  #forgetAll(): void {
    this.#due.clear();
    this.#hinted.clear();
    this.#spans.clear();
    this.#isAllToBeSeen = false;
  }

  /** Finds out what is due. Gives false when that cannot be said now. */
  async #refresh(): Promise<boolean> {
    try {
      await this.#recall();
      if (this.#isAllToBeSeen) {
        this.#isAllToBeSeen = false;
        this.#isBlind = !this.#isRecalled;
        if (this.#isRecalled) await this.#seeAll();
      }
      for (const target of this.#hinted) {
        this.#hinted.delete(target);
        const due = await this.#dueAt(target);
        if (due !== null && this.#due.get(target)?.event !== 'moved') this.#due.set(target, due);
      }
      return true;
    } catch (error) {
      this.#isBlind = true;
      this.#isAllToBeSeen = false;
      this.#hinted.clear();
      this.#report(null, error);
      return false;
    }
  }

  /** Until the state can be read, only what is published by this process is known to be due. */
  async #recall(): Promise<void> {
    if (this.#isRecalled) return;
    const recalled = await this.#ports.recall();
    if (recalled === null) return;
    for (const [target, tree] of recalled) if (!this.#told.has(target)) this.#told.set(target, tree);
    this.#isRecalled = true;
  }

  async #seeAll(): Promise<void> {
    const { published, unreadable } = await this.#ports.inventory();
    this.#due.clear();
    for (const due of dueHooks(published, new Set(unreadable), this.#told)) this.#due.set(due.target, due);
    for (const target of this.#retries.names()) if (!this.#due.has(target)) this.#retries.forget(target);
  }

  async #dueAt(target: string): Promise<DueHook | null> {
    const manifest = await this.#ports.manifest(target);
    return manifest === null ? null : dueForTree(target, toldTree(manifest), this.#told);
  }

  /** Runs the command for a target as it stands now, which may be another state than the one that was found to be due. */
  async #run(command: HookCommand, found: DueHook): Promise<void> {
    const { target, movedFrom } = found;
    const { emit, remember } = this.#ports;
    let span: ChangeSpan | undefined;
    try {
      const due = await this.#asOfNow(found);
      // Whatever comes while the command runs is due anew.
      this.#due.delete(target);
      if (due === null) {
        this.#retries.forget(target);
        return;
      }
      span = this.#spans.take(target);
      const changes = knownChanges(due, this.#told.get(target), span);
      const durationMs = await tellTree(this.#ports, command, due, changes, this.#stop.signal);
      if (due.event === 'retired') this.#told.delete(target);
      else this.#told.set(target, due.tree);
      if (movedFrom !== null) this.#told.delete(movedFrom);
      this.#retries.forget(target);
      await remember(target, due.event === 'retired' ? null : due.tree);
      if (movedFrom !== null) await remember(movedFrom, null);
      emit({ name: 'hook.finished', hook: 'afterPublish', target, durationMs });
    } catch (error) {
      this.#spans.giveBack(target, span);
      if (!this.#due.has(target)) this.#due.set(target, found);
      // Stopped with the program: due again at its next start.
      if (error instanceof MirrorError && error.code === 'pass.abandoned') return;
      this.#retries.note(target);
      this.#report(target, error);
    }
  }

  async #asOfNow(found: DueHook): Promise<DueHook | null> {
    const manifest = await this.#ports.manifest(found.target);
    if (found.event === 'retired') return manifest === null ? found : null;
    if (manifest === null) return null;
    const tree = toldTree(manifest);
    return found.event === 'moved' && isSameTarget(found.tree, tree)
      ? { ...found, tree }
      : dueForTree(found.target, tree, this.#told);
  }

  #report(target: string | null, error: unknown): void {
    this.#ports.emit({ name: 'hook.failed', hook: 'afterPublish', target, ...eventFailure(error) });
  }
}
