import type { NotificationType } from '../../config/schema-network.ts';
import { counted, withHint } from '../../lib/text/humanize.ts';
import type { Notification } from './notifications.ts';

/** How receivers want to be told: as data, or as a message for people in the form that they take. */
export type WebhookFormat = 'json' | 'slack' | 'ntfy' | 'apprise';

/** A notification on its way to a receiver. */
export interface WebhookMessage extends Notification {
  readonly id: string;
  /** When it happened, RFC 3339. */
  readonly at: string;
  /** The name of this machine. */
  readonly host: string;
}

/** What is sent. */
export interface WebhookContent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How much a person should care. The words are those of Apprise. */
type Weight = 'info' | 'success' | 'warning' | 'failure';

/** A notification for people. */
interface Said {
  readonly weight: Weight;
  readonly title: string;
  readonly text: string;
}

const SAYINGS: Readonly<Record<NotificationType, readonly [Weight, title: string]>> = {
  'target.published': ['info', 'Files changed'],
  'target.moved': ['info', 'A repository was renamed'],
  'target.retired': ['info', 'A target went to the history'],
  'target.failed': ['failure', 'A target fails'],
  'target.held': ['warning', 'A deletion waits for approval'],
  'target.drifted': ['warning', 'A published tree was changed'],
  'target.recovered': ['success', 'A target is well again'],
  'mirror.stale': ['failure', 'The mirror is not fresh'],
  'mirror.fresh': ['success', 'The mirror is fresh again'],
  'pass.failed': ['failure', 'Passes fail'],
  'pass.recovered': ['success', 'Passes succeed again'],
  'pass.stuck': ['failure', 'A pass is stuck'],
  'credentials.refused': ['failure', 'The service refuses a key'],
  'credentials.accepted': ['success', 'The service accepts the key again'],
  'settings.refused': ['warning', 'Changed settings were refused'],
  'settings.accepted': ['success', 'Changed settings are in force'],
  'hook.failed': ['warning', 'A hook fails'],
  'hook.recovered': ['success', 'A hook succeeds again'],
};

/** Short names of emojis, which Slack and ntfy both know. */
const EMOJIS: Readonly<Record<Weight, string>> = {
  info: 'information_source',
  success: 'white_check_mark',
  warning: 'warning',
  failure: 'rotating_light',
};

/** From 1 to 5; 3 is what ntfy takes without one (docs.ntfy.sh, "Message priority"). */
const PRIORITIES: Readonly<Record<Weight, number>> = { info: 2, success: 3, warning: 3, failure: 4 };

/** ntfy makes an attachment of a message of more than 4,096 bytes (docs.ntfy.sh, "Limitations"). */
const MOST_TEXT_BYTES = 3500;

/**
 * A notification as its receiver takes it.
 * @param scrub masks the secrets in a text
 */
export function webhookContent(
  format: WebhookFormat,
  message: WebhookMessage,
  scrub: (text: string) => string,
): WebhookContent {
  const { id, type, at, host, fields } = message;
  if (format === 'json') return json(scrub(JSON.stringify({ id, type, at, host, ...fields })));
  const [usual, title] = SAYINGS[type];
  return FORMATS[format]({
    // What is tried again by itself needs nobody yet.
    weight: fields['triedAgain'] === true ? 'warning' : usual,
    title: scrub(`${title} (${host})`),
    text: shortened(scrub(textOf(message) ?? `${title}.`)),
  });
}

const FORMATS: Readonly<Record<Exclude<WebhookFormat, 'json'>, (said: Said) => WebhookContent>> = {
  // docs.slack.dev, "Sending messages using incoming webhooks" and "Formatting message text".
  slack: ({ weight, title, text }) =>
    json(
      JSON.stringify({
        text: `:${EMOJIS[weight]}: *${escapedForSlack(title)}*\n${escapedForSlack(text)}`,
      }),
    ),
  // docs.ntfy.sh, "Publishing". With X- no proxy takes the priority for that of HTTP (RFC 9218).
  ntfy: ({ weight, title, text }) => ({
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      'x-title': headerText(title),
      'x-priority': String(PRIORITIES[weight]),
      'x-tags': EMOJIS[weight],
    },
    body: text,
  }),
  // github.com/caronc/apprise-api, "API Details".
  apprise: ({ weight, title, text }) =>
    json(JSON.stringify({ title, body: text, type: weight, format: 'text' })),
};

function json(body: string): WebhookContent {
  return { headers: { 'content-type': 'application/json' }, body };
}

/** What happened, for people; null where the title says it all. */
function textOf({ type, fields }: Notification): string | null {
  const parts = [subjectOf(fields), detailOf(type, fields)].filter((part) => part !== '');
  return parts.length === 0 ? null : parts.join(': ');
}

/** What it is about; nothing for the mirror as a whole. */
function subjectOf({ target, credential }: Notification['fields']): string {
  if (typeof target === 'string') return target;
  return typeof credential === 'string' ? `service.${credential}` : '';
}

function detailOf(type: NotificationType, fields: Notification['fields']): string {
  const said = (name: string): string => String(fields[name]);
  switch (type) {
    case 'target.published':
      return `${counted(Number(fields['added']), 'file')} added, ${said('changed')} changed, ${said('removed')} removed`;
    case 'target.moved':
      return `it was ${said('from')} before`;
    case 'target.retired':
      return `its tree went to history/ (${said('reason')})`;
    case 'target.held':
      return `${said('message')}. workbook-mirror approve lists what would go, and asks.`;
    case 'mirror.stale':
      if (fields['count'] === 0) return 'the settings select nothing of what the service lists';
      return `not verified in time, or not whole: ${counted(Number(fields['count']), 'target')}${namesIn(fields['first'])}`;
    case 'pass.stuck':
      return `It has made no progress for ${said('silentSeconds')} seconds.`;
    case 'settings.accepted':
      return Array.isArray(fields['changed']) ? fields['changed'].join(', ') : '';
    default:
      return sentencesOf(fields);
  }
}

function namesIn(first: unknown): string {
  if (!Array.isArray(first) || first.length === 0) return '';
  const named = first as readonly { readonly target: string; readonly reason: string }[];
  return `, ${named.map(({ target, reason }) => `${target} (${reason})`).join(', ')}`;
}

/** State, message and hint of a trouble, as far as they are known. */
function sentencesOf({ state, message, hint }: Notification['fields']): string {
  const why =
    typeof message === 'string' ? withHint({ message, hint: typeof hint === 'string' ? hint : null }) : '';
  return typeof state === 'string' ? `${state}. ${why}`.trimEnd() : why;
}

/** Names come from the service: without this one could call a whole channel (`<!channel>`). */
function escapedForSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** A text as a header may hold it, which ntfy decodes (RFC 2047). */
function headerText(text: string): string {
  return /^[ -~]*$/.test(text) ? text : `=?UTF-8?B?${Buffer.from(text).toString('base64')}?=`;
}

/** A text of no more bytes than receivers take, with whole characters. */
function shortened(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MOST_TEXT_BYTES) return text;
  const whole = new TextDecoder().decode(bytes.subarray(0, MOST_TEXT_BYTES), { stream: true });
  return `${whole} …`;
}
