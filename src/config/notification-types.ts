/** All types of notifications to a webhook: part of the contract with its receiver. */
export const NOTIFICATION_TYPES = [
  'target.published',
  'target.moved',
  'target.retired',
  'target.failed',
  'target.held',
  'target.drifted',
  'target.recovered',
  'mirror.stale',
  'mirror.fresh',
  'pass.failed',
  'pass.recovered',
  'pass.stuck',
  'credentials.refused',
  'credentials.accepted',
  'settings.refused',
  'settings.accepted',
  'hook.failed',
  'hook.recovered',
] as const;

/** One of {@link NOTIFICATION_TYPES}. */
export type NotificationType = (typeof NOTIFICATION_TYPES)[number];

/** Whether a text chooses types: one of them, a group such as `target.*`, or `*`. */
export function isWebhookFilter(text: string): boolean {
  return NOTIFICATION_TYPES.some((type) => matches(text, type));
}

/** Whether one of the filters of {@link isWebhookFilter} lets a type through. */
export function isChosen(type: NotificationType, filters: readonly string[]): boolean {
  return filters.some((filter) => matches(filter, type));
}

function matches(filter: string, type: NotificationType): boolean {
  return filter === '*' || filter === type || filter === `${type.slice(0, type.indexOf('.'))}.*`;
}
