import { createHmac } from 'node:crypto';

import { MirrorError } from '../../lib/errors/errors.ts';
import { signingKey } from '../../lib/net/signing-key.ts';

/**
 * Signs a notification (Standard Webhooks specification, "Signature scheme").
 * @param key base64 with or without `whsec_` before it
 * @param id names the notification, the same at every attempt
 * @param timestamp of the attempt, in whole seconds since the epoch
 * @returns the value of the header `webhook-signature`
 * @throws MirrorError `notification.failed` for a key that is none: the file that holds it may have changed
 */
export function signatureOf(key: string, id: string, timestamp: number, body: string): string {
  const bytes = signingKey(key);
  if (bytes === null) throw unusable();
  const digest = createHmac('sha256', bytes).update(`${id}.${timestamp}.${body}`).digest('base64');
  return `v1,${digest}`;
}

function unusable(): MirrorError {
  return new MirrorError(
    'notification.failed',
    'hooks.webhookSecret does not hold a key: nothing is sent, as nothing may go unsigned.',
    {
      hint: 'Give 24 to 64 bytes in base64, with or without whsec_ before them.',
    },
  );
}
