import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { withoutScheme } from './auth.ts';
import { findKey, findKeyOfKind, type KnownKey } from './keys.ts';
import { basicPair } from '../../lib/http/access.ts';
import { RequestError } from '../../lib/http/request-error.ts';

/** How an incoming webhook shows that it may ask. */
export interface WebhookCredentials {
  /** Keys that were sent as they are. */
  readonly keys: readonly string[];
  /** HMAC-SHA256 of what was sent, in lower-case hexadecimal digits. */
  readonly signatures: readonly string[];
}

/** Where a key may stand: the API's own header, that of GitLab, and the one that every sender has. */
const KEY_HEADERS = ['x-api-key', 'x-gitlab-token', 'authorization'] as const;

/** Where a signature may stand: GitHub's header, which Gitea and Forgejo send too, and their own. */
const SIGNATURE_HEADERS = ['x-hub-signature-256', 'x-gitea-signature'] as const;

/** The key in a header; of Basic (RFC 7617) it is the password, as addresses have no place for a key alone. */
function keyIn(value: string): string {
  const pair = basicPair(value);
  return pair === null ? withoutScheme(value) : pair.slice(pair.indexOf(':') + 1);
}

function textOf(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Reads the credentials of an incoming webhook. Never from its address, which every log on the way may show. */
export function webhookCredentials(headers: IncomingHttpHeaders): WebhookCredentials {
  const keys = KEY_HEADERS.map((name) => keyIn(textOf(headers[name]))).filter((key) => key !== '');
  // Gitea sends the headers without a signature in them when its webhook has no secret.
  const signatures = SIGNATURE_HEADERS.map(
    (name) => /^(?:sha256=)?([0-9a-f]{64})$/i.exec(textOf(headers[name]))?.[1]?.toLowerCase() ?? '',
  ).filter((signature) => signature !== '');
  return { keys, signatures };
}

/**
 * Whether one of the keys that were sent is a group key (service specification, section 6). Other texts may be credentials of
 * something on the way here.
 * @throws RequestError 403 for a key that is for something else
 */
export function carriesGroupKey({ keys: sent }: WebhookCredentials, keys: readonly KnownKey[]): boolean {
  if (sent.some((key) => findKeyOfKind(keys, 'group', key) !== null)) return true;
  if (sent.every((key) => findKey(keys, key) === null)) return false;
  throw new RequestError(
    403,
    'not_a_group_key',
    'incoming webhooks take a group key only: whoever sets a webhook up needs no more than that',
  );
}

function signingSecrets(keys: readonly KnownKey[]): readonly string[] {
  return keys.flatMap(({ kind, signingSecret }) =>
    kind === 'group' && signingSecret !== null ? [signingSecret] : [],
  );
}

/** Whether a signature was sent that could be right, whatever was signed. */
export function canBeSigned({ signatures }: WebhookCredentials, keys: readonly KnownKey[]): boolean {
  return signatures.length > 0 && signingSecrets(keys).length > 0;
}

/** So much is hashed before others have their turn, in bytes: less than a millisecond. */
const SLICE_BYTES = 1024 * 1024;

/**
 * Whether one of the signatures is that of a group key's secret over what was sent. Compares in a time that depends on no
 * secret. Others are answered meanwhile: there may be many secrets, and much that anybody sends.
 * @param signed what may have been signed
 * @param signal gives it up
 * @throws the reason of `signal`
 */
export async function carriesSignature(
  { signatures }: WebhookCredentials,
  keys: readonly KnownKey[],
  signed: Uint8Array,
  signal?: AbortSignal,
): Promise<boolean> {
  const sent = signatures.map((signature) => Buffer.from(signature, 'hex'));
  let fitting = 0;
  for (const secret of signingSecrets(keys)) {
    const hmac = createHmac('sha256', secret);
    for (let from = 0; from < signed.length; from += SLICE_BYTES) {
      hmac.update(signed.subarray(from, from + SLICE_BYTES));
      await nextTurn(undefined, { signal });
    }
    const right = hmac.digest();
    fitting += sent.filter((signature) => timingSafeEqual(signature, right)).length;
  }
  return fitting > 0;
}

/** The refusal of a webhook without a valid key or signature. */
export function unauthorizedWebhook({ keys, signatures }: WebhookCredentials): RequestError {
  const problem =
    signatures.length > 0
      ? 'the signature fits none of the secrets for signed webhooks, which are not the group keys themselves'
      : keys.length > 0
        ? 'the group key is not valid'
        : 'the group key is missing';
  const message =
    `${problem}: send a group key in the header X-API-KEY, X-Gitlab-Token or Authorization, or sign the body with its ` +
    'secret (X-Hub-Signature-256, X-Gitea-Signature); in the address it is not looked for, as addresses are logged';
  return new RequestError(401, 'unauthorized', message, { 'www-authenticate': 'x-api-key realm="webhooks"' });
}
