import { maskedJson } from '../../lib/text/scrub.ts';
import type { Notification } from './notifications.ts';

/** Formats of notifications: data, or a message for people in the form of a service. */
export type WebhookFormat = 'json' | 'slack' | 'ntfy' | 'apprise';

/** A notification to send, or a test. */
export interface WebhookMessage extends Omit<Notification, 'type'> {
  readonly type: Notification['type'] | 'test';
  readonly id: string;
  /** Time of the event, RFC 3339. */
  readonly at: string;
  /** The name of this machine. */
  readonly host: string;
}

type Facts = Notification['fields'];

/** Severity for people: the word of Apprise, the emoji of Slack and ntfy, and the priority of ntfy, 1 to 5. */
const WEIGHTS = {
  info: { emoji: 'information_source', priority: '2' },
  success: { emoji: 'white_check_mark', priority: '3' },
  warning: { emoji: 'warning', priority: '3' },
  failure: { emoji: 'rotating_light', priority: '4' },
} as const;

const SLACK_ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** ntfy makes an attachment of a message of more than 4,096 bytes (docs.ntfy.sh, "Limitations"): at most three bytes a UTF-16 unit. */
const MOST_TEXT_UNITS = 1300;

/** Formats a notification for its receiver. @param scrub masks the secrets in a text */
export function webhookContent(
  format: WebhookFormat,
  { id, type, at, host, fields }: WebhookMessage,
  scrub: (text: string) => string,
) {
  if (format === 'json') return json(maskedJson({ id, type, at, host, ...fields }, scrub));
  const weight = weightOf(type, fields['triedAgain'] === true);
  const title = scrub(`${type.replace('.', ' ')} (${host})`);
  // Half a surrogate pair, from a name or the cut, makes JSON that some receivers refuse.
  const text = scrub(textOf(fields) || title)
    .slice(0, MOST_TEXT_UNITS)
    .toWellFormed();
  const { emoji, priority } = WEIGHTS[weight];
  // github.com/caronc/apprise-api, "API Details".
  if (format === 'apprise') return json(JSON.stringify({ title, body: text, type: weight, format: 'text' }));
  // docs.slack.dev, "Formatting message text": unescaped, a name such as `<!channel>` would call everybody.
  if (format === 'slack') {
    const escaped = `*${title}*\n${text}`.replace(/[&<>]/g, (sign) => SLACK_ENTITIES[sign] ?? sign);
    return json(JSON.stringify({ text: `:${emoji}: ${escaped}` }));
  }
  // docs.ntfy.sh, "Publishing": it decodes RFC 2047. Proxies take a header `Priority` for that of HTTP (RFC 9218).
  const headers = {
    'content-type': 'text/plain; charset=utf-8',
    'x-title': `=?UTF-8?B?${Buffer.from(title).toString('base64')}?=`,
    'x-priority': priority,
    'x-tags': emoji,
  };
  return { headers, body: text };
}

function json(body: string) {
  return { headers: { 'content-type': 'application/json' }, body };
}

function weightOf(type: WebhookMessage['type'], isTriedAgain: boolean): keyof typeof WEIGHTS {
  if (/\.(?:published|moved|retired)$|^test$/.test(type)) return 'info';
  if (/\.(?:recovered|fresh|accepted)$/.test(type)) return 'success';
  return isTriedAgain || /^target\.(?:held|drifted)|^settings|^hook/.test(type) ? 'warning' : 'failure';
}

/** The facts, one per line: the target first, then the sentences, then the others by name. */
function textOf({ target, message, hint, code: _code, triedAgain: _triedAgain, ...facts }: Facts): string {
  const others = Object.entries(facts).map(([name, fact]) => [`${name}: `, fact] as const);
  return [['', target] as const, ['', message] as const, ['', hint] as const, ...others]
    .filter(([, fact]) => fact !== null && fact !== undefined)
    .map(([name, fact]) => `${name}${typeof fact === 'string' ? fact : JSON.stringify(fact)}`)
    .join('\n');
}
