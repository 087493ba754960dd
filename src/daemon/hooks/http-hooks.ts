import { createHmac, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import type { EventSink } from '../../app/events.ts';
import { signingKey } from '../../config/addresses.ts';
import { isChosen } from '../../config/schema-network.ts';
import type { Settings } from '../../config/schema.ts';
import { createBackgroundWork, type Ending } from '../../lib/concurrency/background-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type BackOffPolicy, backOffDelayMs } from '../../lib/time/back-off.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { Notification } from './notifications.ts';
import { createPoster, type Poster, type PostRequest } from './post.ts';
import { webhookContent, type WebhookMessage } from './webhook-formats.ts';

/** The settings of the webhook and the heartbeat. */
export type HttpHooks = Pick<
  Settings['hooks'],
  'webhook' | 'webhookSecret' | 'webhookEvents' | 'webhookFormat' | 'heartbeat'
>;

/** Most notifications that wait. */
const MOST_WAITING = 1000;

/** Attempts at one notification: 25 to 50 minutes in total, with these waits in milliseconds. */
const NOTIFICATION: DeliveryPolicy = { mostAttempts: 12, firstDelayMs: 5000, maxDelayMs: 600_000 };

/** Attempts at one heartbeat: few, so that it ends before the next pass sends its own, or the receiver would raise a false alarm. */
const SIGN: DeliveryPolicy = { mostAttempts: 3, firstDelayMs: 4000, maxDelayMs: 20_000 };

/**
 * Sends notifications to the webhook, one after the other, and heartbeats, in parallel with other work.
 * @param hooks gives the settings in force
 * @param scrub masks the secrets in a text
 * @param onDone called whenever no notification waits any more: all were delivered, given up or not chosen
 */
export function createHttpHooks(
  hooks: () => HttpHooks,
  scrub: (text: string) => string,
  emit: EventSink,
  onDone: () => void,
) {
  const poster = createPoster();
  const webhook = createQueue('webhook', NOTIFICATION, poster.send, emit, onDone);
  const heartbeat = createQueue('heartbeat', SIGN, poster.send, emit);
  return {
    /** Sends those of these notifications that the settings choose. */
    tell: (notifications: readonly Notification[]): void => {
      const origin = { at: new Date().toISOString(), host: hostname() };
      const chosen = notifications.filter(({ type }) => isChosen(type, hooks().webhookEvents));
      webhook.add(
        chosen.map((notification) => {
          const message = { ...notification, ...origin, id: `msg_${randomUUID()}` };
          return () => requestOf(message, hooks(), scrub);
        }),
      );
    },
    /** Sends a heartbeat, unless the previous one is still being sent. */
    beat: (): void => {
      const request = (): PostRequest | null => {
        const address = hooks().heartbeat?.reveal();
        return address === undefined ? null : { method: 'GET', address };
      };
      if (!heartbeat.isBusy()) heartbeat.add([request]);
    },
    /** Delivers waiting requests without pauses between attempts; drops those left after the time, in milliseconds. */
    close: async (timeoutMs: number): Promise<void> => {
      await Promise.all([webhook.close(timeoutMs), heartbeat.close(timeoutMs)]);
      await poster.close();
    },
  };
}

/** The request that brings a message to the webhook; null without a webhook. */
export function requestOf(
  message: WebhookMessage,
  { webhook, webhookSecret, webhookFormat }: Omit<HttpHooks, 'heartbeat'>,
  scrub: (text: string) => string,
): PostRequest | null {
  if (webhook === undefined) return null;
  const { id } = message;
  const { headers, body } = webhookContent(webhookFormat, message, scrub);
  const timestamp = Math.floor(Date.now() / 1000);
  const key = webhookSecret?.reveal();
  const signed = key === undefined ? {} : { 'webhook-signature': signatureOf(key, id, timestamp, body) };
  const identity = { 'webhook-id': id, 'webhook-timestamp': String(timestamp) };
  const address = webhook.reveal();
  return { method: 'POST', address, body, headers: { ...headers, ...identity, ...signed } };
}

/**
 * Signs a notification (Standard Webhooks specification, "Signature scheme").
 * @param key base64 with or without the prefix `whsec_`
 * @param id of the notification, the same at every attempt
 * @param timestamp of the attempt, in whole seconds since the epoch
 * @returns the value of the header `webhook-signature`
 */
export function signatureOf(key: string, id: string, timestamp: number, body: string): string {
  const hmac = createHmac('sha256', signingKey(key)).update(`${id}.${timestamp}.${body}`);
  return `v1,${hmac.digest('base64')}`;
}

/** Number of attempts, and the waits between them. */
interface DeliveryPolicy extends BackOffPolicy {
  readonly mostAttempts: number;
}

/** Makes a request as it must be now; null if the setting was removed. */
type MakeRequest = () => PostRequest | null;

/** Makes a queue of requests to a receiver: they are sent one after the other, and each is tried until it arrives or is given up. */
function createQueue(
  to: 'webhook' | 'heartbeat',
  policy: DeliveryPolicy,
  send: Poster['send'],
  emit: EventSink,
  onDone = (): void => {},
) {
  const waiting: MakeRequest[] = [];
  const fail = (error: unknown, attempts: number, isGivenUp = false): void => {
    const failure = eventFailure(error);
    const hint = isGivenUp ? 'No further attempt is made.' : failure.hint;
    emit({ name: 'notification.failed', to, attempts, ...failure, hint });
  };
  const { wake, isBusy, close } = createBackgroundWork(
    async (ending) => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        if (await deliver(next, policy, send, fail, ending)) continue;
        waiting.length = 0;
        return;
      }
      onDone();
    },
    (error) => fail(error, 0),
  );
  const add = (requests: readonly MakeRequest[]): void => {
    for (const request of requests) waiting.push(request);
    if (waiting.splice(0, waiting.length - MOST_WAITING).length > 0) {
      const message = `More than ${MOST_WAITING} notifications wait: the oldest are dropped.`;
      fail(new MirrorError('notification.failed', message), 0);
    }
    wake();
  };
  return { add, isBusy, close };
}

/**
 * Tries until the delivery succeeds or is given up. The receiver may ask for a pause (Retry-After) of up to the longest wait.
 * @returns false if nothing more can be sent: the setting was removed, or the program ends
 */
async function deliver(
  request: MakeRequest,
  policy: DeliveryPolicy,
  send: Poster['send'],
  onFailure: (error: unknown, attempts: number, isGivenUp: boolean) => void,
  { closing, stop }: Ending,
): Promise<boolean> {
  for (let attempts = 1; ; attempts += 1) {
    const isEnding = closing.aborted;
    let wishMs = 0;
    try {
      const present = request();
      if (present === null) return false;
      const { status, retryAfterMs = 0 } = await send(present, stop);
      if (status >= 200 && status < 300) return true;
      wishMs = Math.min(retryAfterMs, policy.maxDelayMs);
      throw new MirrorError(
        'notification.failed',
        `${new URL(present.address).origin} refused the request (status ${status}).`,
        { hint: 'Check the address and the program behind it. Redirects are not followed.' },
      );
    } catch (error) {
      if (stop.aborted) return false;
      const isGivenUp = attempts === policy.mostAttempts;
      onFailure(error, attempts, isGivenUp);
      if (isEnding) return false;
      if (isGivenUp) return true;
      const delayMs = backOffDelayMs(policy, attempts, Math.random(), wishMs);
      await sleep(delayMs, undefined, { signal: closing }).catch(() => {});
    }
  }
}
