/** A received request. */
interface ReceivedRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

/** A receiver's status for a request, and the message that it shows. */
interface Reception {
  readonly status: number;
  readonly error?: string;
  readonly title?: string;
  readonly text?: string;
  readonly weight?: string | number;
  readonly tags?: readonly string[];
}

/** The receivers of messages, each as strict as its documentation. */
export const RECEIVERS = { slack: receiveAsSlack, ntfy: receiveAsNtfy, apprise: receiveAsApprise };

/** docs.slack.dev, "Sending messages using incoming webhooks": JSON with `text`; 400 invalid_payload, no_text. */
function receiveAsSlack({ headers, body }: ReceivedRequest): Reception {
  const content = objectIn(body);
  if (content === null || !isJson(headers)) return { status: 400, error: 'invalid_payload' };
  const { text, ...others } = content;
  if (Object.keys(others).length > 0) return { status: 400, error: 'invalid_payload' };
  if (typeof text !== 'string' || text.trim() === '' || text.length > 40_000)
    return { status: 400, error: 'no_text' };
  // Three characters are control characters; an & is only allowed as a part of their entities.
  if (/[<>]|&(?!(?:amp|lt|gt);)/.test(text))
    return { status: 400, error: 'would be taken for a link or a mention' };
  const [first = '', ...rest] = text.split('\n');
  const [, emoji = '', title = ''] = /^:(\w+): \*(.*)\*$/.exec(first) ?? [];
  return { status: 200, title: unescaped(title), text: unescaped(rest.join('\n')), tags: [emoji] };
}

function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

/** docs.ntfy.sh, "Publishing": the body is the message, headers have the rest; a longer message becomes a file. */
function receiveAsNtfy({ headers, body }: ReceivedRequest): Reception {
  const priority = String(headers['x-priority']);
  if (!/^[1-5]$/.test(priority)) return { status: 400, error: 'invalid priority' };
  if (body === '') return { status: 400, error: 'would be shown as "triggered"' };
  if (Buffer.byteLength(body) > 4096) return { status: 400, error: 'would become an attachment' };
  const title = decoded(String(headers['x-title']));
  const tags = String(headers['x-tags']).split(',');
  return { status: 200, title, text: body, weight: Number(priority), tags };
}

/** RFC 2047, in the only form that we write. */
function decoded(header: string): string {
  const [, base64] = /^=\?UTF-8\?B\?([A-Za-z0-9+/=]+)\?=$/.exec(header) ?? [];
  return base64 === undefined ? header : Buffer.from(base64, 'base64').toString();
}

/** github.com/caronc/apprise-api, "API Details": a body, a known type and format, and a title of at most 250 characters. */
function receiveAsApprise({ headers, body }: ReceivedRequest): Reception {
  const content = objectIn(body);
  if (content === null || !isJson(headers)) return { status: 400, error: 'Invalid JSON Payload provided' };
  const { title, body: text, type = 'info', format = 'text', ...others } = content;
  const isWhole = typeof text === 'string' && text !== '' && text.length <= 32_768;
  if (!isWhole || !['info', 'success', 'warning', 'failure'].includes(String(type)))
    return { status: 400, error: 'Payload lacks minimum requirements' };
  if (!['text', 'markdown', 'html'].includes(String(format)))
    return { status: 400, error: 'An invalid body input format was specified' };
  if (typeof title !== 'string' || title.length > 250 || Object.keys(others).length > 0)
    return { status: 400, error: 'not what the documentation names' };
  return { status: 200, title, text, weight: String(type) };
}

function isJson(headers: ReceivedRequest['headers']): boolean {
  return headers['content-type'] === 'application/json';
}

function objectIn(body: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : null;
  } catch {
    return null;
  }
}
