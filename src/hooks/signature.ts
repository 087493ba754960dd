import { createHmac } from 'node:crypto';

/**
 * Signs a notification (Standard Webhooks specification, "Signature scheme").
 * @param key base64 with or without `whsec_` before it
 * @param id names the notification, the same at every attempt
 * @param timestamp of the attempt, in whole seconds since the epoch
 * @returns the value of the header `webhook-signature`
 */
export function signatureOf(key: string, id: string, timestamp: number, body: string): string {
  const bytes = Buffer.from(key.replace(/^whsec_/, ''), 'base64');
  const digest = createHmac('sha256', bytes).update(`${id}.${timestamp}.${body}`).digest('base64');
  return `v1,${digest}`;
}
