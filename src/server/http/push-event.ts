import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

import { z } from 'zod';

import type { Reply } from '../../lib/http/reply.ts';
import { bodyOf, invalid, readBody, RequestError, textOfBody } from '../../lib/http/request.ts';
import { withoutScheme } from './auth.ts';
import type { Changes } from '../git/library.ts';
import { findKey, type KnownKey } from '../keys/keys.ts';
import type { Library } from './library.ts';
import { jsonReply, type ServiceRequest } from './messages.ts';
import { comparableAddress, findMeant } from './repository-reference.ts';

/**
 * The largest body that is read, in bytes: a push of some thousand commits is smaller. A signed body must be read before its sender
 * is known, and on every open connection at once.
 */
const BODY_LIMIT_BYTES = 1024 * 1024;

/** Headers that may carry a group key: the API's own, GitLab's, and the common one. Never the address, which logs show. */
const KEY_HEADERS = ['x-api-key', 'x-gitlab-token', 'authorization'] as const;

/** GitHub's header for the HMAC of the body. Gitea and Forgejo send it, too. */
const SIGNATURE_HEADER = 'x-hub-signature-256';

/**
 * Answers an incoming webhook (service specification, section 6, which shows neither address nor payload): starts a fetch of the
 * repositories that it names.
 * @throws RequestError 400 for a body that cannot be understood, 401 without a group key, 403 for another key and for a replica,
 *   404 for an unknown repository, 409 for one without an external source, 413 for a large body
 */
export async function answerPushEvent(
  library: Library,
  changes: Changes | null,
  { keys, headers, body }: ServiceRequest,
): Promise<Reply> {
  const isKeySent = carriesGroupKey(headers, keys);
  // Without a key or a signature the body is not read.
  if (!isKeySent && headers[SIGNATURE_HEADER] === undefined)
    throw unauthorized('the group key is missing or not valid');
  if (changes === null)
    throw new RequestError(403, 'read_only', 'this service is a replica of a mirror, and fetches nothing');
  const bytes = await readBody(bodyOf(body), BODY_LIMIT_BYTES);
  if (!isKeySent && !isSigned(headers, keys, bytes))
    throw unauthorized(
      'the signature fits no secret for signed webhooks (wbs_…), which is not the group key',
    );
  const references = referencesIn(payloadOf(textOfBody(bytes)));
  const repositories = await library.repositories();
  const meant = [...new Set(references.flatMap((reference) => findMeant(repositories, reference)))];
  if (meant.length === 0) {
    const shown = [...new Set(references.map(shownReference))].join(', ');
    const message = `no repository here is connected to ${shown}: connect it by the same address`;
    throw new RequestError(404, 'repository_not_found', message);
  }
  const fetching = meant.filter(({ id }) => changes.fetchSoon(id)).map(({ full_name }) => full_name);
  if (fetching.length > 0) return jsonReply(202, { fetching });
  const names = meant.map(({ full_name }) => full_name).join(', ');
  const message = `${names} is a drag-and-drop repository: it is not fetched from anywhere`;
  throw new RequestError(409, 'not_external', message);
}

/**
 * Whether a group key was sent. Other values of these headers may be credentials for a proxy.
 * @throws RequestError 403 for a key of another kind
 */
function carriesGroupKey(headers: IncomingHttpHeaders, keys: readonly KnownKey[]): boolean {
  const sent = KEY_HEADERS.map((name) => withoutScheme(headers[name]?.toString() ?? ''));
  if (sent.some((key) => findKey(keys, key, 'group') !== null)) return true;
  if (sent.every((key) => findKey(keys, key) === null)) return false;
  const message = 'incoming webhooks take a group key only: a webhook needs no other rights';
  throw new RequestError(403, 'not_a_group_key', message);
}

/** Whether a group key's secret signed the body. */
function isSigned(headers: IncomingHttpHeaders, keys: readonly KnownKey[], body: Uint8Array): boolean {
  const [, digits] = /^sha256=([0-9a-f]{64})$/i.exec(String(headers[SIGNATURE_HEADER])) ?? [];
  if (digits === undefined) return false;
  const sent = Buffer.from(digits, 'hex');
  return keys.some(
    ({ signingSecret }) =>
      signingSecret !== null &&
      timingSafeEqual(createHmac('sha256', signingSecret).update(body).digest(), sent),
  );
}

function unauthorized(problem: string): RequestError {
  const message =
    `${problem}: send a group key in the header X-API-KEY, X-Gitlab-Token or Authorization, or sign the body with its ` +
    'secret (X-Hub-Signature-256)';
  return new RequestError(401, 'unauthorized', message, { 'www-authenticate': 'x-api-key realm="webhooks"' });
}

/** Reads the payload, which GitHub sends as JSON or as a field of a form. @throws RequestError 400 for anything else */
function payloadOf(text: string): unknown {
  try {
    const json = text.startsWith('payload=') ? new URLSearchParams(text).get('payload') : text;
    return JSON.parse(json ?? '');
  } catch {
    throw invalid('the body of a webhook must be JSON');
  }
}

const text = z.string().catch('');

/** The fields in which GitHub, GitLab, Gitea and Forgejo send the address of a repository. */
const FIELDS = ['url', 'clone_url', 'html_url', 'git_http_url', 'http_url', 'web_url', 'homepage'];
const ADDRESSES = z
  .object(Object.fromEntries(FIELDS.map((field) => [field, text])))
  .transform((fields) => Object.values(fields))
  .catch([]);

/** A push event, `{"repository": "<id or name>"}`, or `{"url": "<address>"}`. */
const PAYLOAD = z
  .object({ url: text, repository: z.union([z.string(), ADDRESSES]), project: ADDRESSES })
  .transform(({ url, repository, project }) =>
    [url, repository, project].flat().filter((each) => each !== ''),
  );

/** Gives the possible names and addresses of the repository. @throws RequestError 400 if there is none */
function referencesIn(payload: unknown): readonly string[] {
  const references = PAYLOAD.safeParse(payload).data ?? [];
  if (references.length > 0) return references;
  throw invalid(
    'the webhook names no repository: send a push event of GitHub, GitLab or Gitea, {"url": "<address>"}, or ' +
      '{"repository": "<id or full name>"}',
  );
}

/** A reference as an answer may show it: an address may carry a password. */
function shownReference(reference: string): string {
  const address = comparableAddress(reference);
  if (address !== null) return address;
  return reference.includes('@') || reference.length > 200 ? 'what it names' : reference;
}
