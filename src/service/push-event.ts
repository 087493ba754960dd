import { type Answer, jsonAnswer } from './answer.ts';
import { comparableAddress, findMeant } from './git-address.ts';
import type { ServiceRequest } from './handler.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library, Repository } from './library.ts';
import { readPushEvent, unwrapPayload } from './push-payload.ts';
import { readBody } from './request-body.ts';
import { RequestError } from './request-error.ts';
import {
  carriesGroupKey,
  carriesSignature,
  unauthorizedWebhook,
  webhookCredentials,
} from './webhook-auth.ts';

/** The most that GitHub sends with a webhook, in bytes (GitHub documentation, "Webhook events and payloads"). */
const BODY_LIMIT_BYTES = 25 * 1024 * 1024;

/**
 * Answers an incoming webhook (service specification, section 6, which shows neither address nor payload): has the repositories
 * fetched that a push event is about.
 * @throws RequestError 400 for a body that cannot be understood, 401 without a group key, 403 for another key and for a replica,
 *   404 for a repository that is not here, 409 for one that is not fetched from anywhere, 413 for too large a body
 */
export async function answerPushEvent(
  library: Library,
  changes: Changes | null,
  keys: readonly KnownKey[],
  { headers, body }: ServiceRequest,
): Promise<Answer> {
  const credentials = webhookCredentials(headers);
  const isKnown = carriesGroupKey(credentials, keys);
  // Whoever shows nothing at all does not get the body read.
  if (!isKnown && credentials.signatures.length === 0) throw unauthorizedWebhook(credentials);
  const bytes = await readBody(body, BODY_LIMIT_BYTES);
  const payload = unwrapPayload(headers['content-type'], bytes);
  // GitHub signs the body as it is; of a form Gitea signs the JSON alone.
  const signed = payload.json === null ? [bytes] : [bytes, Buffer.from(payload.json)];
  if (!isKnown && !carriesSignature(credentials, keys, signed)) throw unauthorizedWebhook(credentials);
  if (changes === null) {
    const message = 'this service is a replica: it follows a mirror, and fetches nothing from elsewhere';
    throw new RequestError(403, 'read_only', message);
  }
  const event = readPushEvent(headers, payload);
  if (event.kind === 'ignored') return jsonAnswer(200, { ignored: event.event, reason: event.reason });
  return answerPush(await library.repositories(), changes, event.references);
}

/** Has fetched what a push is about. @param references what may name the repository */
function answerPush(
  repositories: readonly Repository[],
  { fetchSoon }: Pick<Changes, 'fetchSoon'>,
  references: readonly string[],
): Answer {
  const meant = [...new Set(references.flatMap((reference) => findMeant(repositories, reference)))];
  if (meant.length === 0) {
    const shown = [...new Set(references.map(presentReference))].join(', ');
    throw new RequestError(
      404,
      'repository_not_found',
      `no repository here is connected to ${shown}: connect it by the same address`,
    );
  }
  const fetching = meant.filter(({ id }) => fetchSoon(id)).map(({ full_name }) => full_name);
  if (fetching.length > 0) return jsonAnswer(202, { fetching });
  const names = meant.map(({ full_name }) => full_name).join(', ');
  throw new RequestError(
    409,
    'not_external',
    `${names} is a drag-and-drop repository: it is not fetched from anywhere`,
  );
}

/** A reference as an answer may show it: an address may carry a password. */
function presentReference(reference: string): string {
  const address = comparableAddress(reference);
  if (address !== null) return address;
  return reference.includes('@') || reference.length > 200 ? 'what it names' : reference;
}
