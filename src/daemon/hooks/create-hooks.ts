import { publishedManifest } from '../../mirror/store/inventory.ts';
import { hostname } from 'node:os';
import type { SettingsFor } from '../../config/schema.ts';
import type { EventSink } from '../../app/events.ts';
import { createPoster } from './post.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { StatusService } from '../status/status-service.ts';
import { AfterPublish } from './after-publish.ts';
import { createAlerts } from './alerts.ts';
import { KILL_GRACE_MS } from '../../lib/process/command.ts';
import { commandOf, surroundingsOf } from '../../app/command-hooks.ts';
import { createHeartbeat, createWebhook, type WebhookTarget } from './http-hooks.ts';

/** The commands and notifications that events trigger; all of them run beside the passes. */
export interface Hooks {
  /** Takes in what happens; never throws. */
  readonly sink: EventSink;
  /** Waits until the command after publishing was run for all due targets; gives the number of targets still due. */
  readonly settled: () => Promise<number>;
  /**
   * Begins nothing new, and leaves work under way this time to end, in milliseconds. Commands that were not run are due at the
   * next start; notifications that were not sent are lost.
   */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** The time in which hooks end once the program is to stop, in milliseconds. */
export const HOOKS_CLOSE_MS = 27_000;

/** How long an address may take to answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 30_000;

/** The most of that time that is kept for notifications, in milliseconds. */
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
 * @param readMirror tells how the mirror stands
 */
export function createHooks(
  current: () => SettingsFor<'directory'>,
  mirror: Pick<Mirror, 'store' | 'state' | 'onPublished'>,
  emit: EventSink,
  { readMirror }: Pick<StatusService, 'readMirror'>,
): Hooks {
  const { store, state, onPublished } = mirror;
  const surroundings = surroundingsOf(current);
  const afterPublish = new AfterPublish({
    ...surroundings,
    command: () => commandOf(current(), 'afterPublish'),
    inventory: store.inventory.read,
    manifest: (target) => publishedManifest(store.layout, target),
    recall: () => state.toldTrees(),
    remember: (target, tree) => state.saveToldTree(target, tree),
    emit,
  });
  const { send, close: closeConnections } = createPoster(ANSWER_TIMEOUT_MS);
  const webhook = createWebhook({
    target: () => webhookOf(current()),
    send,
    scrub: surroundings.scrub,
    host: hostname(),
    emit,
    onDone: () => alerts.onTold(),
  });
  const heartbeat = createHeartbeat(() => current().hooks.heartbeat?.reveal() ?? null, send, emit);
  const alerts = createAlerts({
    current,
    readMirror,
    state,
    tell: webhook.tell,
    beat: heartbeat.beat,
    emit,
  });
  onPublished(afterPublish.onPublished);
  afterPublish.lookAtAll();
  const close = async (timeoutMs: number): Promise<void> => {
    const tellingMs = Math.min(TELLING_MS, timeoutMs);
    await afterPublish.close(Math.max(0, timeoutMs - tellingMs - KILL_GRACE_MS));
    await alerts.close();
    await Promise.all([webhook.close(tellingMs), heartbeat.close(tellingMs)]);
    // What has arrived by now is remembered.
    await alerts.close();
    await closeConnections();
  };
  let closed: Promise<void> | null = null;
  return {
    sink: (event) => {
      if (LOOK_AGAIN.has(event.name)) afterPublish.lookAtAll();
      alerts.sink(event);
    },
    settled: () => afterPublish.settled(),
    close: (timeoutMs) => {
      closed ??= close(timeoutMs);
      return closed;
    },
  };
}

function webhookOf({ hooks }: SettingsFor<never>): WebhookTarget | null {
  const { webhook, webhookSecret, webhookEvents: filters, webhookFormat: format } = hooks;
  if (webhook === undefined) return null;
  return { address: webhook.reveal(), key: webhookSecret?.reveal() ?? null, filters, format };
}
