import { type BackgroundWork, createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import type { NewState } from '../../mirror/pass/context.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import {
  type ChangeSpan,
  type DueHook,
  dueForTree,
  dueHooks,
  isSameTarget,
  knownChanges,
  spanOf,
  type StandingTrees,
} from './due-hooks.ts';
import { toldTree } from '../../app/published-changes.ts';
import type { ToldTree } from '../../mirror/state/state.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import type { HookCommand, HookSurroundings } from '../../app/command-hooks.ts';
import { tellTree } from './tell-tree.ts';
import { PendingChanges } from './pending-changes.ts';

/** Everything that the command after publishing needs from the mirror and the daemon. */
export interface AfterPublishPorts extends HookSurroundings {
  /** The command as the settings have it now; null for none. */
  readonly command: () => HookCommand | null;
  readonly inventory: () => Promise<StandingTrees>;
  readonly manifest: (target: string) => Promise<Manifest | null>;
  /** The trees that the command was told of, by path; null while the state cannot be read. */
  readonly recall: () => Promise<ReadonlyMap<string, ToldTree> | null>;
  /** Remembers the tree that the command was last told of at a path; null for none any more. */
  readonly remember: (target: string, tree: ToldTree | null) => Promise<unknown>;
  readonly emit: EventSink;
}

/** Wait after the first failure for a target, and the longest wait, in milliseconds. */
const BACK_OFF = { firstDelayMs: 30_000, maxDelayMs: 3_600_000 };

/** The shortest wait between two looks at what is due again, in milliseconds. */
const LEAST_WAIT_MS = 100;

/**
 * The command after publishing: run for one target at a time, beside the passes. What it was told to its success is remembered by
 * target, and compared with what stands: so it is run at least once for every state that lasts, across crashes, and once for
 * several states that came while it was busy.
 */
export class AfterPublish {
  readonly #ports: AfterPublishPorts;
  readonly #running: BackgroundWork;
  readonly #told = new Map<string, ToldTree>();
  readonly #due = new Map<string, DueHook>();
  readonly #hinted = new Set<string>();
  readonly #changes = new PendingChanges();
  /** The targets that the command failed for. Times in milliseconds, of the clock that never jumps. */
  readonly #failed = new Map<string, { readonly attempts: number; readonly nextAtMs: number }>();
  #isRecalled = false;
  #isAllToBeSeen = false;
  /** Whether it could not be found out what is due. */
  #isBlind = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: AfterPublishPorts) {
    this.#ports = ports;
    this.#running = createBackgroundWork(
      async ({ closing, stop }) => {
        clearTimeout(this.#timer);
        await this.#runAll(closing, stop);
        this.#wakeLater(closing);
      },
      (error) => this.#report(null, error),
    );
  }

  /** A target has a new state, which is durable and visible. */
  readonly onPublished = ({ target, previous, manifest }: NewState): void => {
    if (this.#ports.command() === null) return;
    this.#changes.add(target, spanOf(previous, manifest));
    this.#hinted.add(target);
    this.#running.wake();
  };

  /** Something moved, left the mirror, or may be due from before: everything that stands is looked at. */
  lookAtAll(): void {
    this.#isAllToBeSeen = true;
    this.#running.wake();
  }

  /** Waits until everything that is due now was run; gives for how many targets it failed and is still due. */
  async settled(): Promise<number> {
    await this.#running.idle();
    return this.#due.size + (this.#isBlind ? 1 : 0);
  }

  /** Begins no further one, and gives the running one so long to end, in milliseconds, before it is stopped. */
  async close(timeoutMs: number): Promise<void> {
    clearTimeout(this.#timer);
    await this.#running.close(timeoutMs);
  }

  #wakeLater(closing: AbortSignal): void {
    if (this.#failed.size === 0 || closing.aborted) return;
    const nextAtMs = Math.min(...[...this.#failed.values()].map((failure) => failure.nextAtMs));
    const delayMs = Math.max(LEAST_WAIT_MS, nextAtMs - performance.now());
    this.#timer = setTimeout(() => this.#running.wake(), delayMs).unref();
  }

  async #runAll(closing: AbortSignal, stop: AbortSignal): Promise<void> {
    for (;;) {
      const command = this.#ports.command();
      if (command === null) {
        this.#forgetAll();
        return;
      }
      if (!(await this.#refresh())) return;
      const next = [...this.#due.values()].find(({ target }) => this.#isDue(target));
      if (next === undefined || closing.aborted) return;
      await this.#run(command, next, stop);
    }
  }

  #isDue(target: string): boolean {
    return (this.#failed.get(target)?.nextAtMs ?? 0) <= performance.now();
  }

  #forgetAll(): void {
    this.#due.clear();
    this.#hinted.clear();
    this.#changes.clear();
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
    const trees = await this.#ports.inventory();
    this.#due.clear();
    for (const due of dueHooks(trees, this.#told)) this.#due.set(due.target, due);
    for (const target of this.#failed.keys()) if (!this.#due.has(target)) this.#failed.delete(target);
  }

  async #dueAt(target: string): Promise<DueHook | null> {
    const manifest = await this.#ports.manifest(target);
    return manifest === null ? null : dueForTree(target, toldTree(manifest), this.#told);
  }

  /** Runs the command for a target as it stands now, which may be another state than the one that was found to be due. */
  async #run(command: HookCommand, found: DueHook, stop: AbortSignal): Promise<void> {
    const { target, movedFrom } = found;
    const { emit, remember } = this.#ports;
    let span: ChangeSpan | undefined;
    try {
      const due = await this.#asOfNow(found);
      // Whatever comes while the command runs is due anew.
      this.#due.delete(target);
      if (due === null) {
        this.#failed.delete(target);
        return;
      }
      span = this.#changes.take(target);
      const changes = knownChanges(due, this.#told.get(target), span);
      const durationMs = await tellTree(this.#ports, command, due, changes, stop);
      if (due.event === 'retired') this.#told.delete(target);
      else this.#told.set(target, due.tree);
      if (movedFrom !== null) this.#told.delete(movedFrom);
      this.#failed.delete(target);
      await remember(target, due.event === 'retired' ? null : due.tree);
      if (movedFrom !== null) await remember(movedFrom, null);
      emit({ name: 'hook.finished', hook: 'afterPublish', target, durationMs });
    } catch (error) {
      if (span !== undefined) this.#changes.giveBack(target, span);
      if (!this.#due.has(target)) this.#due.set(target, found);
      // Stopped with the program: due again at its next start.
      if (error instanceof MirrorError && error.code === 'pass.abandoned') return;
      this.#noteFailure(target);
      this.#report(target, error);
    }
  }

  #noteFailure(target: string): void {
    const attempts = (this.#failed.get(target)?.attempts ?? 0) + 1;
    const nextAtMs = performance.now() + backOffDelayMs(BACK_OFF, attempts, Math.random());
    this.#failed.set(target, { attempts, nextAtMs });
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
