import { commandOf } from '../../app/command-hooks.ts';
import type { EventSink, MirrorEvent } from '../../app/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { KILL_GRACE_MS } from '../../lib/process/run.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { ReadMirror } from '../status/mirror-status.ts';
import { AfterPublish } from './after-publish.ts';
import { createHttpHooks, type HttpHooks } from './http-hooks.ts';
import {
  type Notification,
  notificationsOfEvent,
  notificationsOfTargets,
  type Troubles,
} from './notifications.ts';

/** Time for hooks to end when the program stops, in milliseconds. */
export const HOOKS_CLOSE_MS = 27_000;

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
 * The commands and notifications that events trigger; all of them run in parallel with passes. Starts with the commands that are still due.
 * @param current gives the current settings
 */
export function createHooks(
  current: () => SettingsFor<'directory'>,
  { store, state, onPublished }: Pick<Mirror, 'store' | 'state' | 'onPublished'>,
  emit: EventSink,
  readMirror: ReadMirror,
) {
  const masked = (text: string): string => scrub(text, secretsOf(current()));
  const afterPublish = new AfterPublish({
    layout: store.layout,
    command: () => commandOf(current(), 'afterPublish'),
    inventory: store.inventory.read,
    recall: () => state.hookTrees(),
    remember: (target, tree) => state.saveHookTree(target, tree),
    emit,
  });
  onPublished(afterPublish.onPublished);
  afterPublish.lookAtAll();
  const notifying = startNotifying(() => current().hooks, state, emit, readMirror, masked);
  return {
    /** Receives events; never throws. */
    sink: (event: MirrorEvent): void => {
      if (LOOK_AGAIN.has(event.name)) afterPublish.lookAtAll();
      notifying.sink(event);
    },
    /** Waits until the command after publishing was run for all due targets; gives the number of targets still due. */
    settled: (): Promise<number> => afterPublish.settled(),
    /**
     * Starts nothing new, and gives running work this time to end, in milliseconds. Commands that did not run are due at the
     * next start; unsent notifications are lost.
     */
    close: async (timeoutMs: number): Promise<void> => {
      const notifyingMs = Math.min(NOTIFYING_MS, timeoutMs);
      await afterPublish.close(Math.max(0, timeoutMs - notifyingMs - KILL_GRACE_MS));
      await notifying.close(notifyingMs);
    },
  };
}

/** Notifies of events. Troubles are recorded once no notification waits: a restart repeats only unsent ones, not those dropped or given up. */
function startNotifying(
  hooks: () => HttpHooks,
  state: Mirror['state'],
  emit: EventSink,
  readMirror: ReadMirror,
  scrub: (text: string) => string,
) {
  const looks = new Places(1);
  /** Runs one check after the other. A mirror that is unreadable now is checked after the next pass. */
  const look = (work: () => Promise<void>): Promise<void> =>
    looks.run(work).catch((error: unknown) => emit({ name: 'state.failed', ...eventFailure(error) }));
  const allLooks = (): Promise<void> => look(() => Promise.resolve());
  let troubles: Troubles | null = null;
  let settling: NodeJS.Timeout | undefined;
  const saveTroubles = async (): Promise<void> => {
    if (troubles !== null) await state.save('troubles', Object.fromEntries(troubles));
  };
  const http = createHttpHooks(hooks, scrub, emit, () => void look(saveTroubles));
  const sendNew = async (findNew: (known: Troubles) => Notification[]): Promise<void> => {
    if (hooks().webhook === undefined) return;
    troubles ??= new Map(Object.entries((await state.read('troubles')) ?? {}));
    const notifications = findNew(troubles);
    if (notifications.length > 0) http.tell(notifications);
  };
  /** @param isAfterPass whether a pass has just completed: only then a heartbeat is sent */
  const notifyOfMirror = async (isAfterPass: boolean): Promise<void> => {
    const { webhook, heartbeat } = hooks();
    const isBeating = isAfterPass && heartbeat !== undefined;
    if (webhook === undefined && !isBeating) return;
    const { targets, readiness } = await readMirror();
    await sendNew((known) => notificationsOfTargets(known, targets, readiness));
    if (isBeating && readiness.isReady) http.beat();
  };
  return {
    sink: (event: MirrorEvent): void => {
      const { name } = event;
      void look(() => sendNew((known) => notificationsOfEvent(known, event)));
      if (name === 'pass.finished' || name === 'pass.failed')
        void look(() => notifyOfMirror(name === 'pass.finished'));
      if (name === 'target.drifted' || name === 'target.whole') {
        clearTimeout(settling);
        settling = setTimeout(() => void look(() => notifyOfMirror(false)), SETTLE_MS).unref();
      }
    },
    close: async (timeoutMs: number): Promise<void> => {
      clearTimeout(settling);
      await allLooks();
      await http.close(timeoutMs);
      // Record the notifications that have arrived by now.
      await allLooks();
    },
  };
}
