import { ERROR_RULES, type ErrorCode } from '../../lib/errors/errors.ts';
import type { EventFailure } from '../../mirror/pass/events.ts';
import type { MirrorEvent } from '../../app/events.ts';
import { driftSentence, heldSentence } from '../../app/messages.ts';
import type { Readiness } from '../status/readiness.ts';
import type { NotificationType } from '../../config/schema-network.ts';
import type { TargetState, TargetStatus } from '../../app/target-status.ts';

/** A message to the webhook. */
export interface Notification {
  readonly type: NotificationType;
  /** Its content, ready for JSON. Times as RFC 3339 texts. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Troubles that were reported and are not over, by what has them: only a change is reported, however often something fails. */
export type Troubles = Map<string, string>;

/** How many targets a notification names. */
const TARGETS_NAMED = 20;

/** The notifications for an event. @param troubles is brought up to date */
export function tellOfEvent(troubles: Troubles, event: MirrorEvent): Notification[] {
  switch (event.name) {
    case 'target.pulled': {
      const { target, files, added, changed, removed } = event;
      if (added + changed + removed === 0) return [];
      return plain('target.published', { target, files, added, changed, removed });
    }
    case 'target.moved':
      return plain('target.moved', { target: event.target, from: event.from });
    case 'target.retired':
      return plain('target.retired', { target: event.target, reason: event.reason });
    case 'pass.failed':
      return turn(troubles, 'pass', 'failed', 'pass.failed', failureFields(event));
    case 'pass.finished': {
      troubles.delete('stuck');
      return turn(troubles, 'pass', null, 'pass.recovered', {});
    }
    case 'loop.stuck':
      return turn(troubles, 'stuck', 'stuck', 'pass.stuck', { silentSeconds: event.silentMs / 1000 });
    default:
      return tellOfDaemon(troubles, event);
  }
}

function tellOfDaemon(troubles: Troubles, event: MirrorEvent): Notification[] {
  switch (event.name) {
    case 'credentials.refused': {
      const { credential } = event;
      return turn(troubles, `credential:${credential}`, 'refused', 'credentials.refused', { credential });
    }
    case 'credentials.accepted': {
      const { credential, key } = event;
      return turn(troubles, `credential:${credential}`, null, 'credentials.accepted', { credential, key });
    }
    case 'settings.refused':
      return turn(troubles, 'settings', event.message, 'settings.refused', failureFields(event));
    case 'settings.reloaded':
      return turn(troubles, 'settings', null, 'settings.accepted', { changed: event.changed });
    case 'hook.failed': {
      const { hook, target } = event;
      const fields = { hook, ...(target === null ? {} : { target }), ...failureFields(event) };
      return turn(troubles, hookKey(hook, target), 'failed', 'hook.failed', fields);
    }
    case 'hook.finished': {
      const { hook, target } = event;
      return turn(troubles, hookKey(hook, target), null, 'hook.recovered', { hook, target });
    }
    default:
      return [];
  }
}

function hookKey(hook: string, target: string | null): string {
  return `hook:${hook}:${target ?? ''}`;
}

/**
 * The notifications for the states of the targets, and for whether the mirror is ready.
 * @param troubles is brought up to date; targets that are gone are forgotten
 */
export function tellOfTargets(
  troubles: Troubles,
  statuses: readonly TargetStatus[],
  readiness: Readiness,
): Notification[] {
  const known = new Set(statuses.map(({ target }) => targetKey(target)));
  for (const key of troubles.keys()) if (key.startsWith('target:') && !known.has(key)) troubles.delete(key);
  return [
    ...statuses.flatMap((status) => tellOfTarget(troubles, status)),
    ...(readiness.isListed ? tellOfReadiness(troubles, readiness) : []),
  ];
}

/** The notification for each state of a target; `over` ends an earlier trouble, null leaves open whether it is over. */
const TOLD_AS: Readonly<Record<TargetState, NotificationType | 'over' | null>> = {
  failing: 'target.failed',
  quarantined: 'target.failed',
  stalled: 'target.failed',
  held: 'target.held',
  drifted: 'target.drifted',
  damaged: 'target.drifted',
  fresh: 'over',
  absent: 'over',
  unselected: 'over',
  stale: null,
  missing: null,
  pending: null,
};

function tellOfTarget(troubles: Troubles, status: TargetStatus): Notification[] {
  const { target, state } = status;
  const type = TOLD_AS[state];
  if (type === null) return [];
  if (type === 'over') return turn(troubles, targetKey(target), null, 'target.recovered', { target });
  return turn(troubles, targetKey(target), state, type, { target, state, ...whyOf(status) });
}

function whyOf({ failure, held, drift }: TargetStatus): Readonly<Record<string, unknown>> {
  if (failure !== null) return failureFields(failure);
  if (drift !== null) return { message: driftSentence(drift) };
  if (held === null) return {};
  const { deletions, of, first } = held;
  return { message: heldSentence(held), deletions, of, first };
}

function targetKey(target: string): string {
  return `target:${target}`;
}

/** Reasons that the notifications for each target tell. */
const TOLD_OF_TARGET: ReadonlySet<string> = new Set(['failing', 'quarantined', 'stalled', 'held']);

function tellOfReadiness(troubles: Troubles, readiness: Readiness): Notification[] {
  const notReady = readiness.notReady.filter(({ reason }) => !TOLD_OF_TARGET.has(reason));
  if (notReady.length === 0 && !readiness.selectsNothing)
    return turn(troubles, 'mirror', null, 'mirror.fresh', {});
  const first = notReady.slice(0, TARGETS_NAMED).map(({ target, reason, verifiedAtMs }) => ({
    target,
    reason,
    verifiedAt: verifiedAtMs === null ? null : new Date(verifiedAtMs).toISOString(),
  }));
  return turn(troubles, 'mirror', 'stale', 'mirror.stale', { count: notReady.length, first });
}

function failureFields({ code, message, hint }: EventFailure): Readonly<Record<string, unknown>> {
  return { code, message, hint, triedAgain: isTriedAgain(code) };
}

/** Whether the program tries again by itself soon, or a person is needed. */
function isTriedAgain(code: ErrorCode): boolean {
  return ERROR_RULES[code].action === 'retry';
}

/** Tells of something whenever it happens. */
function plain(type: NotificationType, fields: Notification['fields']): Notification[] {
  return [{ type, fields }];
}

/** Tells of something only when it turns. @param state what the trouble is now; null when there is none */
function turn(
  troubles: Troubles,
  key: string,
  state: string | null,
  type: NotificationType,
  fields: Notification['fields'],
): Notification[] {
  if ((troubles.get(key) ?? null) === state) return [];
  if (state === null) troubles.delete(key);
  else troubles.set(key, state);
  return plain(type, fields);
}
