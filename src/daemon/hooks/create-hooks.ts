import { hostname } from 'node:os';

import { createPoster } from '../../mirror/upstream/post.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createAfterPublish } from './after-publish.ts';
import { KILL_GRACE_MS } from './command.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createWebhook } from './webhook.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';
import type { Mirror } from '../start/open-mirror.ts';
import { createAlerts } from './alerts.ts';
import { commandOf, surroundingsOf } from './publish-gate.ts';

/** What is run and told when something happens; all of it beside the passes. */
export interface Hooks {
  /** Takes in what happens; never throws. */
  readonly sink: EventSink;
  /** Waits until the command after publishing was run for everything that is due; gives for how many targets it still is. */
  readonly settled: () => Promise<number>;
  /**
   * Begins nothing new, and gives what is on its way so long to end, in milliseconds. What was not run is due at the next start;
   * what was not told is lost.
   */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** How long an address may take to answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 30_000;

/** The part of the time for an end that is kept for notifications, and the most of it, in milliseconds. */
const TELLING_SHARE = 0.25;
const TELLING_MS = 5000;

/** Events after which what stands may be due for the command that is run after publishing. */
const LOOK_AGAIN: ReadonlySet<string> = new Set([
  'target.moved',
  'target.retired',
  'pass.finished',
  'pass.failed',
]);

/**
 * Makes the hooks of a mirror, and begins with what is due from before.
 * @param current the settings in force
 */
export function createHooks(
  current: () => SettingsFor<'directory'>,
  mirror: Pick<Mirror, 'store' | 'state' | 'onPublished'>,
  emit: EventSink,
): Hooks {
  const { store, state } = mirror;
  const afterPublish = createAfterPublish({
    ...surroundingsOf(current),
    command: () => commandOf(current(), 'afterPublish'),
    inventory: store.inventory,
    manifest: store.manifest,
    recall: () => tolerateStateFailure(emit, state.toldTrees, null),
    remember: (target, tree) => tolerateStateFailure(emit, () => state.saveToldTree(target, tree), undefined),
    emit,
  });
  const telling = createTelling(current, mirror, emit);
  mirror.onPublished(afterPublish.onPublished);
  afterPublish.lookAtAll();
  let closed: Promise<void> | null = null;
  const closeAll = async (timeoutMs: number): Promise<void> => {
    const tellingMs = Math.min(TELLING_MS, timeoutMs * TELLING_SHARE);
    await afterPublish.close(Math.max(0, timeoutMs - tellingMs - KILL_GRACE_MS));
    await telling.close(tellingMs);
  };
  return {
    sink: (event) => {
      if (LOOK_AGAIN.has(event.name)) afterPublish.lookAtAll();
      telling.sink(event);
    },
    settled: afterPublish.settled,
    close: (timeoutMs) => {
      closed ??= closeAll(timeoutMs);
      return closed;
    },
  };
}

/** Webhook and heartbeat, and the alerts who decides what they tell. */
function createTelling(
  current: () => SettingsFor<'directory'>,
  mirror: Pick<Mirror, 'store' | 'state'>,
  emit: EventSink,
): Pick<Hooks, 'sink' | 'close'> {
  const { send, close } = createPoster(ANSWER_TIMEOUT_MS);
  const webhook = createWebhook({
    target: () => {
      const { webhook: address, webhookSecret, webhookEvents: filters } = current().hooks;
      if (address === undefined) return null;
      return { address: address.reveal(), key: webhookSecret?.reveal() ?? null, filters };
    },
    send,
    scrub: surroundingsOf(current).scrub,
    host: hostname(),
    emit,
    now: Date.now,
    onDone: () => alerts.onTold(),
  });
  const address = (): string | null => current().hooks.heartbeat?.reveal() ?? null;
  const heartbeat = createHeartbeat({ address, send, emit });
  const alerts = createAlerts(current, mirror, { tell: webhook.tell, beat: heartbeat.beat, emit });
  return {
    sink: alerts.sink,
    close: async (timeoutMs) => {
      await alerts.close();
      await Promise.all([webhook.close(timeoutMs), heartbeat.close(timeoutMs)]);
      // What has arrived by now is remembered.
      await alerts.close();
      await close();
    },
  };
}
