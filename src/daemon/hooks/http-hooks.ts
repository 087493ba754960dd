import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { isChosen } from '../../config/schema-network.ts';
import { createBackgroundWork, type Ending } from '../../lib/concurrency/background-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { signingKey } from '../../config/addresses.ts';
import { type BackOffPolicy, backOffDelayMs } from '../../lib/time/back-off.ts';
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

/** Attempts at one notification: about an hour in all, with these waits in milliseconds. */
const NOTIFICATION: DeliveryPolicy = { mostAttempts: 12, firstDelayMs: 5000, maxDelayMs: 600_000 };

/** Attempts at one sign of life: the next pass gives the next one, whatever became of this one, or the receiver sounds a false alarm. */
const SIGN: DeliveryPolicy = { mostAttempts: 3, firstDelayMs: 4000, maxDelayMs: 20_000 };

/** Makes a webhook. */
export function createWebhook({ target, send, scrub, host, emit, onDone }: WebhookPorts): Webhook {
  const waiting: WebhookMessage[] = [];
  const delivering = createBackgroundWork(
    async (ending) => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const message = next;
        const request = (): UnsentRequest | null => requestOf(message, target(), scrub);
        if (await deliver({ to: 'webhook', request, send, emit }, NOTIFICATION, ending)) continue;
        waiting.length = 0;
        return;
      }
      onDone();
    },
    (error) => emit(failureOf('webhook', error, 0)),
  );
  return {
    tell: (notifications) => {
      const to = target();
      if (to === null) return;
      const at = new Date().toISOString();
      for (const { type, fields } of notifications)
        if (isChosen(type, to.filters)) waiting.push({ id: `msg_${randomUUID()}`, at, host, type, fields });
      if (waiting.length > MOST_WAITING) {
        waiting.splice(0, waiting.length - MOST_WAITING);
        const message = `More than ${MOST_WAITING} notifications wait: the oldest are dropped.`;
        emit(failureOf('webhook', new MirrorError('notification.failed', message), 0));
      }
      delivering.wake();
    },
    close: delivering.close,
  };
}

function requestOf(
  message: WebhookMessage,
  target: WebhookTarget | null,
  scrub: (text: string) => string,
): UnsentRequest | null {
  if (target === null) return null;
  const { address, key, format } = target;
  const { id } = message;
  const { headers, body } = webhookContent(format, message, scrub);
  const timestamp = Math.floor(Date.now() / 1000);
  const signed = key === null ? {} : { 'webhook-signature': signatureOf(key, id, timestamp, body) };
  const identity = { 'webhook-id': id, 'webhook-timestamp': String(timestamp) };
  return { method: 'POST', address, body, headers: { ...headers, ...identity, ...signed } };
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

/** A sign of life to a service that sounds an alarm when it does not come. */
export interface Heartbeat {
  /** Gives a sign, unless the one before is still on its way. */
  readonly beat: () => void;
  /** Lets the one that is on its way arrive, for so long, in milliseconds. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Makes a heartbeat. @param address the address as the settings have it now; null for none */
export function createHeartbeat(
  address: () => string | null,
  send: Poster['send'],
  emit: EventSink,
): Heartbeat {
  const request = (): UnsentRequest | null => {
    const to = address();
    return to === null ? null : { method: 'GET', address: to };
  };
  const beating = createBackgroundWork(
    async (ending) => {
      await deliver({ to: 'heartbeat', request, send, emit }, SIGN, ending);
    },
    (error) => emit(failureOf('heartbeat', error, 0)),
  );
  return {
    beat: () => {
      if (!beating.isBusy()) beating.wake();
    },
    close: beating.close,
  };
}

type UnsentRequest = Omit<PostRequest, 'signal'>;

type Receiver = 'webhook' | 'heartbeat';

/** Something that is to be delivered. */
interface Delivery {
  readonly to: Receiver;
  /** The request as it is to be sent now; null when nothing is to be sent any more. */
  readonly request: () => UnsentRequest | null;
  readonly send: Poster['send'];
  readonly emit: EventSink;
}

/** How often something is tried, and how long it waits in between. */
interface DeliveryPolicy extends BackOffPolicy {
  readonly mostAttempts: number;
}

/**
 * Tries until something is delivered or given up. The receiver may ask for a pause (Retry-After) of up to the longest wait.
 * @returns false if nothing more is to be sent: the setting is gone, or the program ends
 */
async function deliver(
  { to, request, send, emit }: Delivery,
  policy: DeliveryPolicy,
  { closing, stop }: Ending,
): Promise<boolean> {
  for (let attempts = 1; ; attempts += 1) {
    const isEnding = closing.aborted;
    let wishMs = 0;
    try {
      const present = request();
      if (present === null) return false;
      const headers = { 'user-agent': 'workbook-mirror', ...present.headers };
      const answer = await send({ ...present, headers, signal: stop });
      if (answer.status >= 200 && answer.status < 300) return true;
      wishMs = Math.min(answer.retryAfterMs ?? 0, policy.maxDelayMs);
      throw new MirrorError(
        'notification.failed',
        `${new URL(present.address).origin} did not take it (status ${answer.status}).`,
        { hint: 'Check the address and the program behind it. Redirects are not followed.' },
      );
    } catch (error) {
      if (stop.aborted) return false;
      const isGivenUp = attempts === policy.mostAttempts;
      emit(failureOf(to, error, attempts, isGivenUp));
      if (isEnding) return false;
      if (isGivenUp) return true;
      await sleep(backOffDelayMs(policy, attempts, Math.random(), wishMs), undefined, {
        signal: closing,
      }).catch(() => {});
    }
  }
}

function failureOf(to: Receiver, error: unknown, attempts: number, isGivenUp = false): MirrorEvent {
  const failure = eventFailure(error);
  const hint = isGivenUp ? 'This one is given up.' : failure.hint;
  return { name: 'notification.failed', to, attempts, ...failure, hint };
}
