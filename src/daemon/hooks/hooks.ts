import { hostname } from 'node:os';

import { commandOf, surroundingsOf } from '../../app/command-hooks.ts';
import type { EventSink } from '../../app/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { KILL_GRACE_MS } from '../../lib/process/run.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { StatusService } from '../status/status-service.ts';
import { AfterPublish } from './after-publish.ts';
import { createHeartbeat, createWebhook, type Heartbeat, type Webhook } from './http-hooks.ts';
import {
  type Notification,
  notificationsOfEvent,
  notificationsOfTargets,
  type Troubles,
} from './notifications.ts';
import { createPoster, type Poster } from './post.ts';

/** Time for hooks to end when the program stops, in milliseconds. */
export const HOOKS_CLOSE_MS = 27_000;

/** How long an address may take to answer, in milliseconds. */
export const ANSWER_TIMEOUT_MS = 30_000;

/** Longest part of that time to reserve for notifications, in milliseconds. */
const NOTIFYING_MS = 5000;

/** Wait before targets are checked, in milliseconds: drift is recorded a moment after its event, and may be over by then. */
const SETTLE_MS = 1000;

/** Events after which the command that is run after publishing may be due. */
const LOOK_AGAIN: ReadonlySet<string> = new Set([
  'target.moved',
  'target.retired',
  'pass.finished',
  'pass.failed',
]);

/**
 * The commands and notifications that events trigger; all of them run in parallel with passes. Troubles are recorded once their notifications
 * have arrived, so that a restart neither repeats nor forgets one.
 */
export class Hooks {
  readonly #current: () => SettingsFor<'directory'>;
  readonly #state: Mirror['state'];
  readonly #emit: EventSink;
  readonly #readMirror: StatusService['readMirror'];
  readonly #afterPublish: AfterPublish;
  readonly #poster: Poster;
  readonly #webhook: Webhook;
  readonly #heartbeat: Heartbeat;
  readonly #looks = new Places(1);
  #troubles: Troubles | null = null;
  #settling: NodeJS.Timeout | undefined;

  /**
   * Starts with the commands that are still due.
   * @param current gives the current settings
   */
  constructor(
    current: () => SettingsFor<'directory'>,
    { store, state, onPublished }: Pick<Mirror, 'store' | 'state' | 'onPublished'>,
    emit: EventSink,
    { readMirror }: Pick<StatusService, 'readMirror'>,
  ) {
    this.#current = current;
    this.#state = state;
    this.#emit = emit;
    this.#readMirror = readMirror;
    const surroundings = surroundingsOf(current);
    this.#afterPublish = new AfterPublish({
      ...surroundings,
      command: () => commandOf(current(), 'afterPublish'),
      inventory: store.inventory.read,
      recall: () => state.hookTrees(),
      remember: (target, tree) => state.saveHookTree(target, tree),
      emit,
    });
    this.#poster = createPoster(ANSWER_TIMEOUT_MS);
    const ports = { hooks: () => current().hooks, send: this.#poster.send, emit };
    this.#webhook = createWebhook(ports, surroundings.scrub, hostname(), () =>
      this.#look(() => this.#saveTroubles()),
    );
    this.#heartbeat = createHeartbeat(ports);
    onPublished(this.#afterPublish.onPublished);
    this.#afterPublish.lookAtAll();
  }

  /** Receives events; never throws. */
  readonly sink: EventSink = (event) => {
    const { name } = event;
    if (LOOK_AGAIN.has(name)) this.#afterPublish.lookAtAll();
    this.#look(() => this.#sendNew((known) => notificationsOfEvent(known, event)));
    if (name === 'pass.finished' || name === 'pass.failed')
      this.#look(() => this.#notifyOfMirror(name === 'pass.finished'));
    if (name === 'target.drifted' || name === 'target.whole') {
      clearTimeout(this.#settling);
      this.#settling = setTimeout(() => this.#look(() => this.#notifyOfMirror(false)), SETTLE_MS).unref();
    }
  };

  /** Waits until the command after publishing was run for all due targets; gives the number of targets still due. */
  settled(): Promise<number> {
    return this.#afterPublish.settled();
  }

  /**
   * Starts nothing new, and gives running work this time to end, in milliseconds. Commands that did not run are due at the
   * next start; unsent notifications are lost.
   */
  async close(timeoutMs: number): Promise<void> {
    const notifyingMs = Math.min(NOTIFYING_MS, timeoutMs);
    await this.#afterPublish.close(Math.max(0, timeoutMs - notifyingMs - KILL_GRACE_MS));
    clearTimeout(this.#settling);
    await this.#allLooks();
    await Promise.all([this.#webhook.close(notifyingMs), this.#heartbeat.close(notifyingMs)]);
    // Record the notifications that have arrived by now.
    await this.#allLooks();
    await this.#poster.close();
  }

  /** Waits for all checks so far. */
  #allLooks(): Promise<void> {
    return this.#looks.run(() => Promise.resolve());
  }

  /** Runs one check after the other. A mirror that is unreadable now is checked after the next pass. */
  #look(work: () => Promise<void>): void {
    this.#looks.run(work).catch((error: unknown) => {
      this.#emit({ name: 'state.failed', ...eventFailure(error) });
    });
  }

  async #sendNew(findNew: (known: Troubles) => Notification[]): Promise<void> {
    if (this.#current().hooks.webhook === undefined) return;
    this.#troubles ??= new Map(Object.entries((await this.#state.read('troubles')) ?? {}));
    const notifications = findNew(this.#troubles);
    if (notifications.length > 0) this.#webhook.tell(notifications);
  }

  /** @param isAfterPass whether a pass has just completed: only then a heartbeat is sent */
  async #notifyOfMirror(isAfterPass: boolean): Promise<void> {
    const { webhook, heartbeat } = this.#current().hooks;
    const isBeating = isAfterPass && heartbeat !== undefined;
    if (webhook === undefined && !isBeating) return;
    const { targets, readiness } = await this.#readMirror();
    await this.#sendNew((known) => notificationsOfTargets(known, targets, readiness));
    if (isBeating && readiness.isReady) this.#heartbeat.beat();
  }

  async #saveTroubles(): Promise<void> {
    if (this.#troubles !== null) await this.#state.save('troubles', Object.fromEntries(this.#troubles));
  }
}
