import type { IncomingHttpHeaders } from 'node:http';

import { z } from 'zod';

import { textOfBody } from '../../lib/http/request-body.ts';
import { invalid, RequestError } from '../../lib/http/request-error.ts';

/** The event of an incoming webhook. */
export type PushEvent =
  | {
      readonly kind: 'ignored';
      /** The event's name in its own system. */
      readonly event: string;
      readonly reason: string;
    }
  /** Something was pushed; every reference may name the repository: an address, an id or a name. */
  | { readonly kind: 'push'; readonly references: readonly string[] };

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;

/** Two addresses with their names take far less, in bytes. */
const PLAIN_FORM_LIMIT_BYTES = 64 * 1024;

/** The fields of a plain form. */
const PLAIN_FIELDS = ['url', 'repository'] as const;

/** Whether a body says that it is a form. */
export function isForm(contentType: string | undefined): boolean {
  return FORM_TYPE.test(contentType ?? '');
}

/** The text of a form; null for a body that is none. JSON under the content type of a form, as `curl -d` sends it, is JSON. */
function formIn(contentType: string | undefined, text: string): string | null {
  return isForm(contentType) && !/^\s*[{[]/.test(text) ? text : null;
}

/**
 * One field of a form, decoded; the first of its name. The time grows with the length of the form only, however many fields it has:
 * its sender may not be known yet.
 * @throws RequestError 400 where it is not UTF-8, percent-encoded
 */
function fieldOf(form: string, name: string): string | null {
  const beginning = `${name}=`;
  let at = form.indexOf(beginning);
  while (at > 0 && form[at - 1] !== '&') at = form.indexOf(beginning, at + 1);
  if (at === -1) return null;
  const end = form.indexOf('&', at);
  const value = form.slice(at + beginning.length, end === -1 ? undefined : end);
  try {
    return decodeURIComponent(value.replaceAll('+', ' '));
  } catch {
    throw invalid(`the field ${name} of the form must be UTF-8, percent-encoded`);
  }
}

/** The JSON in the field `payload` of a form; null for a body without one. @throws RequestError 400 where it is not UTF-8 */
export function payloadOfForm(contentType: string | undefined, body: Uint8Array): string | null {
  const form = formIn(contentType, textOfBody(body));
  return form === null ? null : fieldOf(form, 'payload');
}

/**
 * Takes what an incoming webhook says out of its body: JSON, JSON in the field `payload` of a form, as GitHub and Gitea send it if they
 * are asked to, or a form with plain fields.
 * @throws RequestError 400 for what is no JSON or not UTF-8, 413 for a form without `payload` that is larger than such forms are
 */
export function unwrapPayload(contentType: string | undefined, body: Uint8Array): unknown {
  const text = textOfBody(body);
  const form = formIn(contentType, text);
  if (form === null) return parseJson(text);
  const json = fieldOf(form, 'payload');
  if (json !== null) return parseJson(json);
  if (body.length > PLAIN_FORM_LIMIT_BYTES) {
    const message = `a form without the field payload may have ${PLAIN_FORM_LIMIT_BYTES} bytes`;
    throw new RequestError(413, 'too_large', message);
  }
  const found = PLAIN_FIELDS.map((name) => [name, fieldOf(form, name)] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== null));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid('the body of a webhook must be JSON, or a form whose field payload is');
  }
}

/** A field that says nothing when it is of another type than it should be: the other fields may say enough. */
const text = z.string().optional().catch(undefined);

const payloadSchema = z.object({
  /** Of the plain form. */
  url: text,
  /** The event of a system hook of GitLab. */
  event_name: text,
  repository: z
    .union([
      z.string(),
      z.object({ clone_url: text, html_url: text, git_url: text, git_http_url: text, homepage: text }),
    ])
    .optional()
    .catch(undefined),
  project: z.object({ git_http_url: text, http_url: text, web_url: text }).optional().catch(undefined),
});

type Payload = z.infer<typeof payloadSchema>;

/** Where senders name the event; Gitea and Forgejo send several of them, which say the same. */
const EVENT_HEADERS = [
  'x-forgejo-event',
  'x-gitea-event',
  'x-gogs-event',
  'x-github-event',
  'x-gitlab-event',
] as const;

/** Events after which branches may be others, as GitHub, Gitea and GitLab name them, in lower case. */
const PUSHES: ReadonlySet<string> = new Set(['push', 'create', 'delete', 'push hook', 'tag push hook']);

/** GitLab's events for a whole installation name what happened in the payload. */
const SYSTEM_HOOK = 'system hook';
const SYSTEM_PUSHES: ReadonlySet<string> = new Set(['push', 'tag_push', 'repository_update']);

/** The event that the headers name; null where they name none, as of a plain form. */
function eventName(headers: IncomingHttpHeaders): string | null {
  const values = EVENT_HEADERS.map((name) => headers[name]);
  return values.find((value) => typeof value === 'string' && value !== '')?.toString() ?? null;
}

function isPush(event: string, payload: Payload): boolean {
  const name = event.toLowerCase();
  return name === SYSTEM_HOOK ? SYSTEM_PUSHES.has(payload.event_name ?? '') : PUSHES.has(name);
}

function referencesIn({ url, repository, project }: Payload): string[] {
  const named =
    typeof repository === 'string'
      ? [repository]
      : [
          repository?.clone_url,
          repository?.git_http_url,
          repository?.html_url,
          repository?.homepage,
          repository?.git_url,
        ];
  const found = [url, ...named, project?.git_http_url, project?.http_url, project?.web_url];
  return [...new Set(found.filter((each) => each !== undefined && each !== ''))].map(String);
}

/**
 * Says what an incoming webhook tells of: a push event of GitHub, GitLab, Gitea or Forgejo, or the plain form,
 * `{"url": "<address>"}` or `{"repository": "<id or full name>"}`.
 * @param payload as {@link unwrapPayload} gives it
 * @throws RequestError 400 for one that is no object, and for a push that names no repository
 */
export function readPushEvent(headers: IncomingHttpHeaders, payload: unknown): PushEvent {
  const parsed = payloadSchema.safeParse(payload);
  if (!parsed.success) throw invalid('the body of a webhook must be an object in JSON');
  const fields = parsed.data;
  const event = eventName(headers);
  if (event?.toLowerCase() === 'ping')
    return { kind: 'ignored', event, reason: 'the webhook works; a ping tells of no push' };
  if (event !== null && !isPush(event, fields))
    return { kind: 'ignored', event, reason: 'only pushes change what is kept here' };
  const references = referencesIn(fields);
  if (references.length > 0) return { kind: 'push', references };
  throw invalid(
    'the webhook names no repository: send a push event of GitHub, GitLab or Gitea, or {"url": "<address>"}, or ' +
      '{"repository": "<id or full name>"}',
  );
}
