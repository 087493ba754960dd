import { ERROR_RULES } from '../../lib/errors/errors.ts';
import type { EventFailure } from '../../mirror/pass/events.ts';
import type { EventFields, EventName, MirrorEvent } from '../../app/events.ts';
import { driftSentence, heldSentence } from '../../app/messages.ts';
import type { Readiness } from '../status/status-schema.ts';
import type { NotificationType } from '../../config/schema-network.ts';
import type { TargetState, TargetStatus } from '../../app/target-status.ts';

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

/** A notification; one about a trouble (null for its end) is sent only when the trouble changes. */
interface News extends Notification {
  readonly trouble?: readonly [key: string, state: string | null];
}

/** The news of each event that has some. */
const NEWS_IN: { readonly [Name in EventName]?: (event: EventFields[Name]) => News | null } = {
  'target.pulled': ({ target, files, added, changed, removed }) =>
    added + changed + removed === 0
      ? null
      : { type: 'target.published', fields: { target, files, added, changed, removed } },
  'target.moved': ({ target, from }) => ({ type: 'target.moved', fields: { target, from } }),
  'target.retired': ({ target, reason }) => ({ type: 'target.retired', fields: { target, reason } }),
  'pass.failed': (event) => ({
    type: 'pass.failed',
    fields: failureFields(event),
    trouble: ['pass', 'failed'],
  }),
  'pass.finished': () => ({ type: 'pass.recovered', fields: {}, trouble: ['pass', null] }),
  'loop.stuck': ({ silentMs }) => ({
    type: 'pass.stuck',
    fields: { silentSeconds: silentMs / 1000 },
    trouble: ['stuck', 'stuck'],
  }),
  'credentials.refused': ({ credential }) => ({
    type: 'credentials.refused',
    fields: { credential },
    trouble: [`credential:${credential}`, 'refused'],
  }),
  'credentials.accepted': ({ credential, key }) => ({
    type: 'credentials.accepted',
    fields: { credential, key },
    trouble: [`credential:${credential}`, null],
  }),
  'settings.refused': (event) => ({
    type: 'settings.refused',
    fields: failureFields(event),
    trouble: ['settings', event.message],
  }),
  'settings.reloaded': ({ changed }) => ({
    type: 'settings.accepted',
    fields: { changed },
    trouble: ['settings', null],
  }),
  'hook.failed': ({ hook, target, ...failure }) => ({
    type: 'hook.failed',
    fields: { hook, ...(target === null ? {} : { target }), ...failureFields(failure) },
    trouble: [`hook:${hook}:${target ?? ''}`, 'failed'],
  }),
  'hook.finished': ({ hook, target }) => ({
    type: 'hook.recovered',
    fields: { hook, target },
    trouble: [`hook:${hook}:${target}`, null],
  }),
};

/** The notifications for an event. @param troubles is updated */
export function tellOfEvent(troubles: Troubles, event: MirrorEvent): Notification[] {
  if (event.name === 'pass.finished') troubles.delete('stuck');
  const news = newsIn(event);
  return [
    ...(event.name === 'hook.finished' ? whenTurned(troubles, hookFindsTargets(event)) : []),
    ...(news === null ? [] : whenTurned(troubles, news)),
  ];
}

/** After a run, a hook knows the targets for which it is due: its trouble without a target is over. */
function hookFindsTargets({ hook }: EventFields['hook.finished']): News {
  return { type: 'hook.recovered', fields: { hook }, trouble: [`hook:${hook}:`, null] };
}

function newsIn<Name extends EventName>(event: { readonly name: Name } & EventFields[Name]): News | null {
  return NEWS_IN[event.name]?.(event) ?? null;
}

/**
 * The notifications for the states of the targets, and for the mirror's readiness.
 * @param troubles is updated; deleted targets are removed
 */
export function tellOfTargets(
  troubles: Troubles,
  statuses: readonly TargetStatus[],
  readiness: Readiness,
): Notification[] {
  // Without the records, the states of the targets are unknown.
  if (readiness.stateProblem !== null) return [];
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
  const key = targetKey(target);
  if (type === null) return [];
  if (type === 'over')
    return whenTurned(troubles, { type: 'target.recovered', fields: { target }, trouble: [key, null] });
  return whenTurned(troubles, { type, fields: { target, state, ...whyOf(status) }, trouble: [key, state] });
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

/** Reasons that the notifications of single targets cover. */
const TOLD_OF_TARGET: ReadonlySet<string> = new Set(['failing', 'quarantined', 'stalled', 'held']);

function tellOfReadiness(troubles: Troubles, readiness: Readiness): Notification[] {
  const notReady = readiness.notReady.filter(({ reason }) => !TOLD_OF_TARGET.has(reason));
  if (notReady.length === 0 && !readiness.selectsNothing)
    return whenTurned(troubles, { type: 'mirror.fresh', fields: {}, trouble: ['mirror', null] });
  const first = notReady.slice(0, TARGETS_NAMED).map(({ target, reason, verifiedAtMs }) => ({
    target,
    reason,
    verifiedAt: verifiedAtMs === null ? null : new Date(verifiedAtMs).toISOString(),
  }));
  const fields = { count: notReady.length, first };
  return whenTurned(troubles, { type: 'mirror.stale', fields, trouble: ['mirror', 'stale'] });
}

/** @returns the parts of a failure; `triedAgain`: whether the program tries again soon, so that no manual action is needed yet */
function failureFields({ code, message, hint }: EventFailure): Readonly<Record<string, unknown>> {
  return { code, message, hint, triedAgain: ERROR_RULES[code].action === 'retry' };
}

/** The notification, if it is news. */
function whenTurned(troubles: Troubles, { type, fields, trouble }: News): Notification[] {
  const [key, state] = trouble ?? ['', null];
  if (trouble !== undefined && (troubles.get(key) ?? null) === state) return [];
  if (state === null) troubles.delete(key);
  else troubles.set(key, state);
  return [{ type, fields }];
}
