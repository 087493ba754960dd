import type { Reply } from '../../lib/http/reply.ts';
import { bodyOf, readBody } from '../../lib/http/request-body.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { comparableAddress, findMeant } from './repository-reference.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library, Repository } from './library.ts';
import { isForm, payloadOfForm, readPushEvent, unwrapPayload } from './push-payload.ts';
import { jsonReply } from './replies.ts';
import type { ServiceRequest } from './request.ts';
import { createUnprovenBodies } from './unproven-bodies.ts';
import {
  canBeSigned,
  carriesGroupKey,
  carriesSignature,
  unauthorizedWebhook,
  type WebhookCredentials,
  webhookCredentials,
} from './webhook-auth.ts';

/** The most that GitHub sends with a webhook, in bytes (GitHub documentation, "Webhook events and payloads"). */
const BODY_LIMIT_BYTES = 25 * 1024 * 1024;

/**
 * The most that is taken out of a form before it is known whose it is, in bytes: that takes longer than to hash it. Only Gitea signs
 * what is in a form, and names a few commits of a push.
 */
const SIGNED_FORM_LIMIT_BYTES = 1024 * 1024;

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
): Promise<Reply> {
  const credentials = webhookCredentials(headers);
  const isProven = carriesGroupKey(credentials, keys);
  // Without a credential that could be right, the body is not read.
  if (!isProven && !canBeSigned(credentials, keys)) throw unauthorizedWebhook(credentials);
  if (changes === null) {
    const message = 'this service is a replica: it follows a mirror, and fetches nothing from elsewhere';
    throw new RequestError(403, 'read_only', message);
  }
  const type = headers['content-type'];
  const prove = (bytes: Buffer, signal: AbortSignal): Promise<void> =>
    proveSigned(credentials, keys, type, bytes, signal);
  const bytes = isProven
    ? await readBody(bodyOf(body), BODY_LIMIT_BYTES)
    : await unproven.read(body, BODY_LIMIT_BYTES, prove);
  const payload = unwrapPayload(type, bytes);
  const event = readPushEvent(headers, payload);
  if (event.kind === 'ignored') return jsonReply(200, { ignored: event.event, reason: event.reason });
  return answerPush(await library.repositories(), changes, event.references);
}

/**
 * Checks that a body was signed with the secret of a group key.
 * @param type of the body
 * @param signal gives it up
 * @throws RequestError 401 for one that was not, 413 for a form that is too large to be looked into; the reason of `signal`
 */
async function proveSigned(
  credentials: WebhookCredentials,
  keys: readonly KnownKey[],
  type: string | undefined,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<void> {
  if (await carriesSignature(credentials, keys, bytes, signal)) return;
  if (isForm(type) && bytes.length > SIGNED_FORM_LIMIT_BYTES) {
    const message = `a form of which the payload alone is signed may have ${SIGNED_FORM_LIMIT_BYTES} bytes: send JSON`;
    throw new RequestError(413, 'too_large', message);
  }
  // GitHub signs the body as it is; of a form Gitea signs the JSON alone.
  const signed = payloadOfForm(type, bytes);
  if (signed !== null && (await carriesSignature(credentials, keys, Buffer.from(signed), signal))) return;
  throw unauthorizedWebhook(credentials);
}

/** Has fetched what a push is about. @param references what may name the repository */
function answerPush(
  repositories: readonly Repository[],
  { fetchSoon }: Pick<Changes, 'fetchSoon'>,
  references: readonly string[],
): Reply {
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
  if (fetching.length > 0) return jsonReply(202, { fetching });
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
