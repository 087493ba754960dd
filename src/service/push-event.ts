import { type Answer, jsonAnswer } from './answer.ts';
import { comparableAddress, findMeant } from './git-address.ts';
import type { ServiceRequest } from './handler.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library, Repository } from './library.ts';
import { payloadOfForm, readPushEvent, unwrapPayload } from './push-payload.ts';
import { readBody } from './request-body.ts';
import { RequestError } from './request-error.ts';
import { bodyOf } from './request-stream.ts';
import { createUnprovenBodies } from './unproven-bodies.ts';
import {
  canBeSigned,
  carriesGroupKey,
  carriesSignature,
  unauthorizedWebhook,
  webhookCredentials,
} from './webhook-auth.ts';

/** The most that GitHub sends with a webhook, in bytes (GitHub documentation, "Webhook events and payloads"). */
const BODY_LIMIT_BYTES = 25 * 1024 * 1024;

/**
 * A signature can be checked only when all is here that was signed, so that anybody can make this process read. Senders wait 10
 * to 30 seconds for their answer.
 */
const unproven = createUnprovenBodies({ bodiesAtOnce: 4, timeMs: 30_000 });

/**
 * Answers an incoming webhook (service specification, section 6, which shows neither address nor payload): has the repositories
 * fetched that a push event is about.
 * @throws RequestError 400 for a body that cannot be understood, 401 without a group key, 403 for another key and for a replica,
 *   404 for a repository that is not here, 409 for one that is not fetched from anywhere, 408, 413 and 503 for a body that is too late, too large, or one too many
 */
export async function answerPushEvent(
  library: Library,
  changes: Changes | null,
  keys: readonly KnownKey[],
  { headers, body }: ServiceRequest,
): Promise<Answer> {
  const bytes = await readAuthorised(keys, headers, body);
  const payload = unwrapPayload(headers['content-type'], bytes);
  if (changes === null) {
    const message = 'this service is a replica: it follows a mirror, and fetches nothing from elsewhere';
    throw new RequestError(403, 'read_only', message);
  }
  const event = readPushEvent(headers, payload);
  if (event.kind === 'ignored') return jsonAnswer(200, { ignored: event.event, reason: event.reason });
  return answerPush(await library.repositories(), changes, event.references);
}

/** Reads the body of a webhook whose sender may ask. @throws RequestError as {@link answerPushEvent} does */
async function readAuthorised(
  keys: readonly KnownKey[],
  headers: ServiceRequest['headers'],
  body: ServiceRequest['body'],
): Promise<Buffer> {
  const credentials = webhookCredentials(headers);
  if (carriesGroupKey(credentials, keys)) return readBody(bodyOf(body), BODY_LIMIT_BYTES);
  // Whoever shows nothing that could be right does not get the body read.
  if (!canBeSigned(credentials, keys)) throw unauthorizedWebhook(credentials);
  const bytes = await unproven.read(body, BODY_LIMIT_BYTES);
  if (carriesSignature(credentials, keys, bytes)) return bytes;
  // GitHub signs the body as it is; of a form Gitea signs the JSON alone.
  const signed = payloadOfForm(headers['content-type'], bytes);
  if (signed !== null && carriesSignature(credentials, keys, Buffer.from(signed))) return bytes;
  throw unauthorizedWebhook(credentials);
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
