import { ERROR_RULES } from '../../lib/errors/errors.ts';
import type { EventFailure } from '../../mirror/pass/events.ts';
import { type EventTable, forEvent, type MirrorEvent } from '../../app/events.ts';
import { driftSentence, heldSentence, DAMAGED } from '../../app/messages.ts';
import type { Readiness } from '../status/status-schema.ts';
import type { NotificationType } from '../../config/schema-network.ts';
import { STATES, type TargetStatus } from '../../app/target-status.ts';

/** A message to the webhook. */
export interface Notification {
  readonly type: NotificationType;
  /** Its content, ready for JSON. Times as RFC 3339 texts. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Reported troubles that continue, by subject: only a change is reported, however often something fails. */
export type Troubles = Map<string, string>;

/** Most targets that a notification names. */
const TARGETS_NAMED = 20;

/** The news of each event that has some. */
const NEWS_IN: EventTable<[], News | null> = {
  'target.pulled': ({ target, files, added, changed, removed }) =>
    added + changed + removed === 0
      ? null
      : news('target.published', { target, files, added, changed, removed }),
  'target.moved': ({ target, from }) => news('target.moved', { target, from }),
  'target.retired': ({ target, reason }) => news('target.retired', { target, reason }),
  'pass.failed': (event) => news('pass.failed', failureFields(event), ['pass', 'failed']),
  'pass.finished': () => news('pass.recovered', {}, ['pass', null]),
  'loop.stuck': ({ silentMs }) => news('pass.stuck', { silentSeconds: silentMs / 1000 }, ['stuck', 'stuck']),
  'credentials.refused': ({ credential }) =>
    news('credentials.refused', { credential }, [`credential:${credential}`, 'refused']),
  'credentials.accepted': ({ credential, key }) =>
    news('credentials.accepted', { credential, key }, [`credential:${credential}`, null]),
  'settings.refused': (event) => news('settings.refused', failureFields(event), ['settings', event.message]),
  'settings.reloaded': ({ changed }) => news('settings.accepted', { changed }, ['settings', null]),
  'hook.failed': ({ hook, target, ...failure }) => {
    const fields = { hook, ...(target === null ? {} : { target }), ...failureFields(failure) };
    return news('hook.failed', fields, [hookKey(hook, target), 'failed']);
  },
  'hook.finished': ({ hook, target }) =>
    news('hook.recovered', { hook, target }, [hookKey(hook, target), null]),
};

/** The notifications for an event. @param troubles is updated */
export function notificationsOfEvent(troubles: Troubles, event: MirrorEvent): Notification[] {
  const { name } = event;
  if (name === 'pass.finished') troubles.delete('stuck');
  const found = forEvent(NEWS_IN, event) ?? null;
  return [
    // After a run, a hook knows the targets for which it is due: its trouble without a target is over.
    ...(name === 'hook.finished'
      ? ifChanged(troubles, news('hook.recovered', { hook: event.hook }, [hookKey(event.hook, null), null]))
      : []),
    ...(found === null ? [] : ifChanged(troubles, found)),
  ];
}

function hookKey(hook: string, target: string | null): string {
  return `hook:${hook}:${target ?? ''}`;
}

/**
 * The notifications for the states of the targets, and for the mirror's readiness.
 * @param troubles is updated; deleted targets are removed
 */
export function notificationsOfTargets(
  troubles: Troubles,
  statuses: readonly TargetStatus[],
  readiness: Readiness,
): Notification[] {
  // Without the records, the states of the targets are unknown.
  if (readiness.stateProblem !== null) return [];
  const known = new Set(statuses.map(({ target }) => targetKey(target)));
  for (const key of troubles.keys()) if (key.startsWith('target:') && !known.has(key)) troubles.delete(key);
  return [
    ...statuses.flatMap((status) => notificationsOfTarget(troubles, status)),
    ...(readiness.isListed ? notificationsOfReadiness(troubles, readiness) : []),
  ];
}

function notificationsOfTarget(troubles: Troubles, status: TargetStatus): Notification[] {
  const { target, state } = status;
  const type = STATES[state].notified;
  const key = targetKey(target);
  if (type === null) return [];
  if (type === 'over') return ifChanged(troubles, news('target.recovered', { target }, [key, null]));
  return ifChanged(troubles, news(type, { target, state, ...whyOf(status) }, [key, state]));
}

function whyOf({ state, failure, held, drift }: TargetStatus): Readonly<Record<string, unknown>> {
  if (failure !== null) return failureFields(failure);
  if (drift !== null) return { message: driftSentence(drift) };
  if (state === 'damaged') return { message: DAMAGED };
  if (held === null) return {};
  const { deletions, of, first } = held;
  return { message: heldSentence(held), deletions, of, first };
}

function targetKey(target: string): string {
  return `target:${target}`;
}

/** Reasons that the notifications of single targets cover. */
const NOTIFIED_FOR_TARGETS: ReadonlySet<string> = new Set(['failing', 'quarantined', 'stalled', 'held']);

function notificationsOfReadiness(troubles: Troubles, readiness: Readiness): Notification[] {
  const notReady = readiness.notReady.filter(({ reason }) => !NOTIFIED_FOR_TARGETS.has(reason));
  if (notReady.length === 0 && !readiness.selectsNothing)
    return ifChanged(troubles, news('mirror.fresh', {}, ['mirror', null]));
  const first = notReady.slice(0, TARGETS_NAMED).map(({ target, reason, verifiedAtMs }) => ({
    target,
    reason,
    verifiedAt: verifiedAtMs === null ? null : new Date(verifiedAtMs).toISOString(),
  }));
  return ifChanged(troubles, news('mirror.stale', { count: notReady.length, first }, ['mirror', 'stale']));
}

/** @returns the parts of a failure; `triedAgain`: whether the program tries again soon, so that no manual action is needed yet */
function failureFields({ code, message, hint }: EventFailure): Readonly<Record<string, unknown>> {
  return { code, message, hint, triedAgain: ERROR_RULES[code].action === 'retry' };
}

/** A notification, with the new state of a trouble that it is about; null for its end. */
type News = readonly [notification: Notification, trouble: Trouble | undefined];
type Trouble = readonly [key: string, state: string | null];

function news(type: NotificationType, fields: Notification['fields'], trouble?: Trouble): News {
  return [{ type, fields }, trouble];
}

/** The notification, unless it is about a trouble that has not changed. */
function ifChanged(troubles: Troubles, [notification, trouble]: News): Notification[] {
  if (trouble === undefined) return [notification];
  const [key, state] = trouble;
  if ((troubles.get(key) ?? null) === state) return [];
  if (state === null) troubles.delete(key);
  else troubles.set(key, state);
  return [notification];
}
