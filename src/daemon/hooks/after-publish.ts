import { lstat } from 'node:fs/promises';

import { createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import type { NewState } from '../../mirror/pass/context.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import {
  type ChangeSpan,
  attempted,
  dueForTree,
  dueHooks,
  isSameTarget,
  knownChanges,
  spanOf,
  type TreesOnDisk,
} from './due-hooks.ts';
import type { HookTree } from '../../mirror/state/state.ts';
import {
  type FileChange,
  type HookCommand,
  hookRun,
  hookTree,
  type TreeNews,
} from '../../app/command-hooks.ts';
import { runCommand, withLine } from '../../lib/process/command.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';

/** Everything that the command after publishing needs from the mirror and the daemon. */
export interface AfterPublishPorts {
  readonly layout: DirectoryLayout;
  /** The command in the current settings; null for none. */
  readonly command: () => HookCommand | null;
  readonly inventory: () => Promise<TreesOnDisk>;
  /** The trees that the command was notified of, by path; null while the state cannot be read. */
  readonly recall: () => Promise<ReadonlyMap<string, HookTree> | null>;
  /** Records the tree that the command was last notified of at a path; null removes it. */
  readonly remember: (target: string, tree: HookTree | null) => Promise<unknown>;
  readonly emit: EventSink;
}

/** Wait after the first failure for a target, and the longest wait, in milliseconds. */
const BACK_OFF = { firstDelayMs: 30_000, maxDelayMs: 3_600_000 };

/** Most changes kept for all targets together: without a list, the command must examine the tree. */
const CHANGES_KEPT = 200_000;

/** The shortest wait between two checks of what is due again, in milliseconds. */
const LEAST_WAIT_MS = 100;

/**
 * The command after publishing: run for one target at a time, in parallel with passes. The trees that it received are recorded
 * by target, and compared with the published ones: so it runs at least once for every lasting state, even after a crash, and once for
 * several states published while it was busy.
 */
export class AfterPublish {
  readonly #ports: AfterPublishPorts;
  readonly #running = createBackgroundWork(
    async ({ closing, stop }) => {
      clearTimeout(this.#timer);
      await this.#runAll(closing, stop).finally(() => this.#wakeLater());
    },
    (error) => {
      this.#isAllToSee = true;
      this.#report(null, error);
    },
  );
  readonly #delivered = new Map<string, HookTree>();
  readonly #due = new Map<string, TreeNews>();
  /** The states published since the last check. */
  readonly #toSee = new Map<string, HookTree>();
  /** Whether all trees must be checked: until then it is not known what is due. */
  #isAllToSee = false;
  #isRecalled = false;
  #areEndsExpected = false;
  /** The changes of the latest publish of each target that the command has not run for. */
  readonly #changes = new Map<string, ChangeSpan>();
  /** The targets that the command failed for. Times in milliseconds, of the monotonic clock. */
  readonly #failed = new Map<string, { readonly attempts: number; readonly nextAtMs: number }>();
  /** The command that ran last. */
  #latest = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: AfterPublishPorts) {
    this.#ports = ports;
  }

  /** A target has a new state, which is durable and visible. */
  readonly onPublished = ({ target, previous, manifest }: NewState): void => {
    if (this.#ports.command() === null) return;
    this.#keepChanges(target, spanOf(previous, manifest));
    this.#toSee.set(target, hookTree(manifest));
    this.#running.wake();
  };

  /** Something moved, left the mirror, or may be due from before: every tree is checked. */
  lookAtAll(): void {
    this.#isAllToSee = true;
    this.#running.wake();
  }

  /** Waits until the command was run for everything due now; returns the number of targets still due after failures. */
  async settled(): Promise<number> {
    await this.#running.idle();
    return this.#due.size + (this.#isAllToSee ? 1 : 0);
  }

  /** Starts no more runs, and stops the running one after this time, in milliseconds. */
  async close(timeoutMs: number): Promise<void> {
    await this.#running.close(timeoutMs);
  }

  #keepChanges(target: string, span: ChangeSpan): void {
    this.#changes.delete(target);
    let kept = span.changes.length;
    for (const { changes } of this.#changes.values()) kept += changes.length;
    if (kept <= CHANGES_KEPT) this.#changes.set(target, span);
  }

  #wakeLater(): void {
    if (this.#failed.size === 0) return;
    const nextAtMs = Math.min(...[...this.#failed.values()].map((failure) => failure.nextAtMs));
    const delayMs = Math.max(LEAST_WAIT_MS, nextAtMs - performance.now());
    this.#timer = setTimeout(() => this.#running.wake(), delayMs).unref();
  }

  async #runAll(closing: AbortSignal, stop: AbortSignal): Promise<void> {
    for (;;) {
      const command = this.#ports.command();
      if (command === null) {
        this.#due.clear();
        this.#toSee.clear();
        this.#changes.clear();
        this.#failed.clear();
        this.#isAllToSee = false;
        return;
      }
      const present = JSON.stringify(command);
      // The pauses were for another command.
      if (present !== this.#latest) this.#failed.clear();
      this.#latest = present;
      await this.#look();
      const nowMs = performance.now();
      const isDue = ({ target }: TreeNews): boolean => (this.#failed.get(target)?.nextAtMs ?? 0) <= nowMs;
      const next = [...this.#due.values()].find(isDue);
      if (next === undefined || closing.aborted) return;
      await this.#run(command, next, stop);
    }
  }

  /** Finds out what is due. Until the state can be read, only trees that this process published are known to be. */
  async #look(): Promise<void> {
    if (!this.#isRecalled) {
      const recalled = await this.#ports.recall();
      for (const [target, tree] of recalled ?? [])
        if (!this.#delivered.has(target)) this.#delivered.set(target, tree);
      this.#isRecalled = recalled !== null;
    }
    for (const [target, tree] of this.#toSee) this.#lookAt(target, tree);
    this.#toSee.clear();
    if (!this.#isAllToSee || !this.#isRecalled) return;
    this.#isAllToSee = false;
    const trees = await this.#ports.inventory();
    await this.#expectEnds(trees);
    this.#due.clear();
    for (const due of dueHooks(trees, this.#delivered)) this.#due.set(due.target, due);
    for (const target of this.#failed.keys()) if (!this.#due.has(target)) this.#failed.delete(target);
  }

  /**
   * Notes the trees that were there before this process and that the state does not know: the command may have received them while the state
   * knew more, so that their end is news even if it comes before the command has run for them.
   */
  async #expectEnds({ published }: TreesOnDisk): Promise<void> {
    if (this.#areEndsExpected) return;
    this.#areEndsExpected = true;
    for (const { path, treePresent, ...tree } of published)
      if (treePresent && !this.#delivered.has(path)) await this.#remember(path, attempted(hookTree(tree)));
  }

  #lookAt(target: string, tree: HookTree): void {
    const known = this.#due.get(target);
    const hasMoved = known?.event === 'moved' && isSameTarget(known.tree, tree);
    const due = hasMoved ? { ...known, tree } : dueForTree(target, tree, this.#delivered);
    if (due !== null) this.#due.set(target, due);
  }

  async #run(command: HookCommand, due: TreeNews, stop: AbortSignal): Promise<void> {
    const { target, movedFrom } = due;
    const span = this.#changes.get(target);
    // Changes while the command runs are due afterwards.
    this.#due.delete(target);
    // A run that fails may have done its work: the end of this tree must be news all the same.
    if (due.event !== 'retired' && !this.#delivered.has(target))
      await this.#remember(target, attempted(due.tree));
    try {
      const changes = knownChanges(due, this.#delivered.get(target), span);
      const durationMs = await runForTree(this.#ports, command, due, changes, stop);
      this.#failed.delete(target);
      if (this.#changes.get(target) === span) this.#changes.delete(target);
      await this.#remember(target, due.event === 'retired' ? null : due.tree);
      if (movedFrom !== null) {
        this.#changes.delete(movedFrom);
        await this.#remember(movedFrom, null);
      }
      this.#ports.emit({ name: 'hook.finished', hook: 'afterPublish', target, durationMs });
    } catch (error) {
      if (!this.#due.has(target)) this.#due.set(target, due);
      // Stopped with the program: due again at the next start.
      if (error instanceof MirrorError && error.code === 'pass.abandoned') return;
      const attempts = (this.#failed.get(target)?.attempts ?? 0) + 1;
      const nextAtMs = performance.now() + backOffDelayMs(BACK_OFF, attempts, Math.random());
      this.#failed.set(target, { attempts, nextAtMs });
      this.#report(target, error);
    }
  }

  async #remember(target: string, tree: HookTree | null): Promise<void> {
    if (tree === null) this.#delivered.delete(target);
    else this.#delivered.set(target, tree);
    await this.#ports.remember(target, tree);
  }

  #report(target: string | null, error: unknown): void {
    this.#ports.emit({ name: 'hook.failed', hook: 'afterPublish', target, ...eventFailure(error) });
  }
}

/**
 * Runs the command for a target.
 * @param changes the changed files; null if unknown
 * @returns how long it took, in milliseconds
 * @throws MirrorError `hook.failed`, `pass.abandoned`
 */
async function runForTree(
  { layout }: AfterPublishPorts,
  command: HookCommand,
  due: TreeNews,
  changes: readonly FileChange[] | null,
  signal: AbortSignal,
): Promise<number> {
  // The real path, not the link: so the command sees one state while it runs, up to `readerGrace`.
  const tree = publishedTree(layout, due.target);
  const isThere = due.event !== 'retired' && (await lstat(tree).catch(() => null))?.isDirectory() === true;
  const run = hookRun(layout, due, changes, isThere ? tree : layout.root);
  const { exitCode, lastLine, durationMs } = await runCommand({ ...command, ...run, signal });
  if (exitCode === 0) return durationMs;
  throw new MirrorError('hook.failed', withLine(`It ended with exit code ${exitCode}`, lastLine), {
    hint: 'Run it by hand to see what it prints.',
  });
}
