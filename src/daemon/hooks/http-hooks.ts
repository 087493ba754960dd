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

/** The receiver of notifications in the current settings. */
export interface WebhookTarget {
  readonly address: string;
  /** Null if they are not signed. */
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
  /** The name of this machine, which is in every notification. */
  readonly host: string;
  readonly emit: EventSink;
  /** Called whenever nothing waits any more: all was delivered, given up or not chosen. */
  readonly onDone: () => void;
}

/** Sends notifications, one after the other, in parallel with other work. */
export interface Webhook {
  readonly tell: (notifications: readonly Notification[]) => void;
  /** Delivers waiting notifications without pauses between attempts; drops those left after the time. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Most notifications that wait. */
const MOST_WAITING = 1000;

/** Attempts at one notification: about an hour in total, with these waits in milliseconds. */
const NOTIFICATION: DeliveryPolicy = { mostAttempts: 12, firstDelayMs: 5000, maxDelayMs: 600_000 };

/** Attempts at one heartbeat: few, so that it ends before the next pass sends its own, or the receiver would raise a false alarm. */
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

/**
 * The request that brings a message to the webhook; null without a webhook.
 * @throws MirrorError `notification.failed` if the signing key is invalid
 */
export function requestOf(
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
 * @param key base64 with or without the prefix `whsec_`
 * @param id of the notification, the same at every attempt
 * @param timestamp of the attempt, in whole seconds since the epoch
 * @returns the value of the header `webhook-signature`
 * @throws MirrorError `notification.failed` for an invalid key: its file may have changed
 */
export function signatureOf(key: string, id: string, timestamp: number, body: string): string {
  const bytes = signingKey(key);
  if (bytes === null) {
    const message =
      'hooks.webhookSecret does not hold a key: nothing is sent, as notifications must be signed.';
    const hint = 'Give 24 to 64 bytes in base64, with or without the prefix whsec_.';
    throw new MirrorError('notification.failed', message, { hint });
  }
  const digest = createHmac('sha256', bytes).update(`${id}.${timestamp}.${body}`).digest('base64');
  return `v1,${digest}`;
}

/** Regular requests to a service that raises an alarm when they stop. */
export interface Heartbeat {
  /** Sends one, unless the previous one is still being sent. */
  readonly beat: () => void;
  /** Gives the one being sent this time to arrive, in milliseconds. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Makes a heartbeat. @param address gives the address in the current settings; null for none */
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

/** Something to deliver. */
interface Delivery {
  readonly to: Receiver;
  /** The request to send now; null if there is nothing to send any more. */
  readonly request: () => UnsentRequest | null;
  readonly send: Poster['send'];
  readonly emit: EventSink;
}

/** Number of attempts, and the waits between them. */
interface DeliveryPolicy extends BackOffPolicy {
  readonly mostAttempts: number;
}

/**
 * Tries until the delivery succeeds or is given up. The receiver may ask for a pause (Retry-After) of up to the longest wait.
 * @returns false if nothing more can be sent: the setting was removed, or the program ends
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
        `${new URL(present.address).origin} refused it (status ${answer.status}).`,
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
