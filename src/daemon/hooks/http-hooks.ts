import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { isChosen } from '../../config/schema-network.ts';
import { createBackgroundWork, type Ending } from '../../lib/concurrency/background-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { signingKey } from '../../lib/net/signing-key.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink, MirrorEvent } from '../../app/events.ts';
import type { Poster, PostRequest } from './post.ts';
import type { Notification } from './notifications.ts';
import { webhookContent, type WebhookFormat, type WebhookMessage } from './webhook-formats.ts';

/** Where notifications go, as the settings have it now. */
export interface WebhookTarget {
  readonly address: string;
  /** Null where they are not signed. */
  readonly key: string | null;
  /** See `isChosen`. */
  readonly filters: readonly string[];
  readonly format: WebhookFormat;
}

/** Everything that the webhook needs from the rest of the daemon. */
export interface WebhookPorts {
  readonly target: () => WebhookTarget | null;
  readonly send: Poster['send'];
  /** Masks the secrets in a text. */
  readonly scrub: (text: string) => string;
  /** The name of this machine, which every notification holds. */
  readonly host: string;
  readonly emit: EventSink;
  /** Called whenever nothing waits any more, as all was delivered, given up after its attempts, or not chosen. */
  readonly onDone: () => void;
}

/** Notifications on their way, one after the other, beside everything else. */
export interface Webhook {
  readonly tell: (notifications: readonly Notification[]) => void;
  /** Delivers what waits, without waiting between attempts any more; what is left after the time is given up. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Notifications that wait, at most. */
const MOST_WAITING = 1000;

/** Attempts at one notification, and the waits between them in milliseconds: about an hour in all. */
const MOST_ATTEMPTS = 12;
const BACK_OFF = { firstDelayMs: 5000, maxDelayMs: 600_000 };

/** Makes a webhook. */
export function createWebhook({ target, send, scrub, host, emit, onDone }: WebhookPorts): Webhook {
  const waiting: WebhookMessage[] = [];
  let hasDropped = false;
  /** An address that said that it is gone. */
  let gone: string | null = null;

  const report = (error: unknown, attempts: number): void => emit(failureEvent(error, attempts));
  const deliveryOf = (message: WebhookMessage): Delivery => ({
    request: () => {
      const to = target();
      return to === null ? null : requestOf(message, to, scrub);
    },
    refusal: refusedByWebhook,
    onFailure: (error, attempts, wishMs) => {
      report(error, attempts);
      if (error instanceof GoneError) {
        gone = error.address;
        return 'over';
      }
      if (attempts === MOST_ATTEMPTS) return 'given-up';
      return backOffDelayMs(BACK_OFF, attempts, Math.random(), wishMs);
    },
  });
  const delivering = createBackgroundWork(
    async (ending) => {
      if (waiting.length === 0) return;
      for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
        if ((await deliver(send, deliveryOf(next), ending)) === 'over') {
          waiting.length = 0;
          return;
        }
        // The oldest may have been dropped while it was on its way.
        if (waiting[0] === next) waiting.shift();
      }
      hasDropped = false;
      onDone();
    },
    (error) => report(error, 0),
  );
  const dropOldest = (): void => {
    if (waiting.length <= MOST_WAITING) return;
    waiting.splice(0, waiting.length - MOST_WAITING);
    if (hasDropped) return;
    hasDropped = true;
    const message = `More than ${MOST_WAITING} notifications wait: the oldest are dropped.`;
    report(new MirrorError('notification.failed', message), 0);
  };
  return {
    tell: (notifications) => {
      const to = target();
      if (to === null || to.address === gone) return;
      const chosen = notifications.filter(({ type }) => isChosen(type, to.filters));
      waiting.push(...chosen.map((each) => messageOf(each, host)));
      dropOldest();
      if (waiting.length > 0) delivering.wake();
      else onDone();
    },
    close: delivering.close,
  };
}

function messageOf({ type, fields }: Notification, host: string): WebhookMessage {
  return { id: `msg_${randomUUID()}`, at: new Date().toISOString(), host, type, fields };
}

function failureEvent(error: unknown, attempts: number): MirrorEvent {
  const failure = eventFailure(error);
  const hint = attempts === MOST_ATTEMPTS ? 'This notification is given up.' : failure.hint;
  return { name: 'notification.failed', to: 'webhook', attempts, ...failure, hint };
}

function requestOf(
  message: WebhookMessage,
  { address, key, format }: WebhookTarget,
  scrub: (text: string) => string,
): UnsentRequest {
  const { id } = message;
  const { headers, body } = webhookContent(format, message, scrub);
  const timestamp = Math.floor(Date.now() / 1000);
  return {
    method: 'POST',
    address,
    body,
    headers: {
      ...headers,
      'user-agent': 'workbook-mirror',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      ...(key === null ? {} : { 'webhook-signature': signatureOf(key, id, timestamp, body) }),
    },
  };
}

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
  if (bytes === null) {
    const message = 'hooks.webhookSecret does not hold a key: nothing is sent, as nothing may go unsigned.';
    const hint = 'Give 24 to 64 bytes in base64, with or without whsec_ before them.';
    throw new MirrorError('notification.failed', message, { hint });
  }
  const digest = createHmac('sha256', bytes).update(`${id}.${timestamp}.${body}`).digest('base64');
  return `v1,${digest}`;
}

/** The answer of a receiver that wants no more (Standard Webhooks specification, "Deliverability and reliability"). */
class GoneError extends MirrorError {
  readonly address: string;

  constructor(address: string) {
    super('notification.failed', `${new URL(address).origin} wants no notifications any more (status 410).`, {
      hint: 'Nothing more is sent there until hooks.webhook is another address, or the program starts anew.',
    });
    this.address = address;
  }
}

function refusedByWebhook(address: string, status: number): MirrorError {
  if (status === 410) return new GoneError(address);
  const isRedirect = status >= 300 && status < 400;
  return notTaken(
    address,
    status,
    isRedirect
      ? 'Redirects are not followed: give the final address.'
      : 'Check the address and the program behind it.',
  );
}

function notTaken(address: string, status: number, hint: string): MirrorError {
  const message = `${new URL(address).origin} did not take it (status ${status}).`;
  return new MirrorError('notification.failed', message, { hint });
}

/** A sign of life to a service that sounds an alarm when it does not come. */
export interface Heartbeat {
  /** Gives a sign, unless the one before is still on its way. */
  readonly beat: () => void;
  /** Lets the one that is on its way arrive, for so long, in milliseconds. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Waits before further attempts at a sign, in milliseconds; after them the next pass gives the next one. */
const BEAT_AGAIN_AFTER_MS = [2000, 10_000];

/** Makes a heartbeat. @param address the address as the settings have it now; null for none */
export function createHeartbeat(
  address: () => string | null,
  send: Poster['send'],
  emit: EventSink,
): Heartbeat {
  const beating = createBackgroundWork(
    async (ending) => {
      const to = address();
      if (to === null) return;
      const sign: Delivery = {
        request: () => ({ method: 'GET', address: to, headers: { 'user-agent': 'workbook-mirror' } }),
        refusal: (origin, status) =>
          notTaken(origin, status, 'Check the address hooks.heartbeat; redirects are not followed.'),
        onFailure: (error, attempts) => {
          emit({ name: 'notification.failed', to: 'heartbeat', attempts, ...eventFailure(error) });
          return BEAT_AGAIN_AFTER_MS[attempts - 1] ?? 'given-up';
        },
      };
      await deliver(send, sign, ending);
    },
    (error) => emit({ name: 'notification.failed', to: 'heartbeat', attempts: 0, ...eventFailure(error) }),
  );
  return {
    beat: () => {
      if (!beating.isBusy()) beating.wake();
    },
    close: beating.close,
  };
}

type UnsentRequest = Omit<PostRequest, 'signal'>;

/** Something that is to be delivered. */
interface Delivery {
  /** The request as it is to be sent now; null when nothing is to be sent any more. */
  readonly request: () => UnsentRequest | null;
  /** The error for an answer that is not a success. */
  readonly refusal: (address: string, status: number) => MirrorError;
  /**
   * Called after each failed attempt.
   * @param wishMs how long the receiver wants to be left alone, in milliseconds
   * @returns how long to wait before the next attempt, in milliseconds, or how the delivery ends
   */
  readonly onFailure: (error: unknown, attempts: number, wishMs: number) => number | 'given-up' | 'over';
}

/** Tries until something is delivered or given up; `over` says that nothing more is to be sent at all. */
async function deliver(
  send: Poster['send'],
  { request, refusal, onFailure }: Delivery,
  { closing, stop }: Ending,
): Promise<'delivered' | 'given-up' | 'over'> {
  for (let attempts = 1; ; attempts += 1) {
    const isLast = closing.aborted;
    let wishMs = 0;
    try {
      const present = request();
      if (present === null) return 'over';
      const { status, retryAfterMs = 0 } = await send({ ...present, signal: stop });
      if (status >= 200 && status < 300) return 'delivered';
      wishMs = retryAfterMs;
      throw refusal(present.address, status);
    } catch (error) {
      if (stop.aborted) return 'over';
      const next = onFailure(error, attempts, wishMs);
      if (isLast) return 'over';
      if (typeof next !== 'number') return next;
      await sleep(next, undefined, { signal: closing }).catch(() => {});
    }
  }
}
