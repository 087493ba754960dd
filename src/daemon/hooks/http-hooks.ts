import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { isChosen } from '../../config/schema-network.ts';
import { createBackgroundWork, type Ending } from '../../lib/concurrency/background-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { signingKey } from '../../lib/net/signing-key.ts';
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
const NOTIFICATION: DeliveryPolicy = {
  mostAttempts: 12,
  firstDelayMs: 5000,
  maxDelayMs: 600_000,
  heedsReceiver: true,
};

/** Attempts at one sign of life: the next pass gives the next one, whatever became of this one, or the receiver sounds a false alarm. */
const SIGN: DeliveryPolicy = {
  mostAttempts: 3,
  firstDelayMs: 4000,
  maxDelayMs: 20_000,
  heedsReceiver: false,
};

/** Makes a webhook. */
export function createWebhook({ target, send, scrub, host, emit, onDone }: WebhookPorts): Webhook {
  const waiting: WebhookMessage[] = [];
  let hasDropped = false;
  /** An address that said that it is gone. */
  let gone: string | null = null;

  const deliverAll = async (ending: Ending): Promise<void> => {
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const message = next;
      let address: string | null = null;
      const request = (): UnsentRequest | null => {
        const to = target();
        address = to?.address ?? null;
        return to === null ? null : requestOf(message, to, scrub);
      };
      const end = await deliver({ to: 'webhook', request, send, emit }, NOTIFICATION, ending);
      if (end === 'gone') gone = address;
      if (end === 'gone' || end === 'over') {
        waiting.length = 0;
        return;
      }
      // The oldest may have been dropped while it was on its way.
      if (waiting[0] === next) waiting.shift();
    }
    hasDropped = false;
    onDone();
  };
  const delivering = createBackgroundWork(
    async (ending) => {
      if (waiting.length > 0) await deliverAll(ending);
    },
    (error) => emit(failureOf('webhook', error, 0)),
  );
  const dropOldest = (): void => {
    if (waiting.length <= MOST_WAITING) return;
    waiting.splice(0, waiting.length - MOST_WAITING);
    if (hasDropped) return;
    hasDropped = true;
    const message = `More than ${MOST_WAITING} notifications wait: the oldest are dropped.`;
    emit(failureOf('webhook', new MirrorError('notification.failed', message), 0));
  };
  return {
    tell: (notifications) => {
      const to = target();
      if (to === null || to.address === gone) return;
      const at = new Date().toISOString();
      for (const { type, fields } of notifications)
        if (isChosen(type, to.filters)) waiting.push({ id: `msg_${randomUUID()}`, at, host, type, fields });
      dropOldest();
      if (waiting.length > 0) delivering.wake();
      else onDone();
    },
    close: delivering.close,
  };
}

function requestOf(
  message: WebhookMessage,
  { address, key, format }: WebhookTarget,
  scrub: (text: string) => string,
): UnsentRequest {
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
  /** Whether the receiver may ask for a pause (Retry-After), or for no more at all (status 410). */
  readonly heedsReceiver: boolean;
}

/**
 * Tries until something is delivered or given up. `gone` and `over` say that nothing more is to be sent there: the receiver wants no
 * more (status 410: Standard Webhooks specification, "Deliverability and reliability"), or the program ends.
 */
async function deliver(
  { to, request, send, emit }: Delivery,
  policy: DeliveryPolicy,
  { closing, stop }: Ending,
): Promise<'done' | 'gone' | 'over'> {
  for (let attempts = 1; ; attempts += 1) {
    const isLast = closing.aborted;
    let status = 0;
    let wishMs = 0;
    const isGone = (): boolean => policy.heedsReceiver && status === 410;
    try {
      const present = request();
      if (present === null) return 'over';
      const headers = { 'user-agent': 'workbook-mirror', ...present.headers };
      ({ status, retryAfterMs: wishMs = 0 } = await send({ ...present, headers, signal: stop }));
      if (status >= 200 && status < 300) return 'done';
      throw notTaken(present.address, status, isGone());
    } catch (error) {
      if (stop.aborted) return 'over';
      emit(failureOf(to, error, attempts, attempts === policy.mostAttempts));
      if (isGone()) return 'gone';
      if (isLast) return 'over';
      if (attempts === policy.mostAttempts) return 'done';
      const waitMs = backOffDelayMs(policy, attempts, Math.random(), policy.heedsReceiver ? wishMs : 0);
      await sleep(waitMs, undefined, { signal: closing }).catch(() => {});
    }
  }
}

function notTaken(address: string, status: number, isGone: boolean): MirrorError {
  return new MirrorError(
    'notification.failed',
    `${new URL(address).origin} ${isGone ? 'wants no more' : 'did not take it'} (status ${status}).`,
    {
      hint: isGone
        ? 'Nothing more is sent there until the setting has another address, or the program is started again.'
        : 'Check the address and the program behind it. Redirects are not followed.',
    },
  );
}

function failureOf(to: Receiver, error: unknown, attempts: number, isGivenUp = false): MirrorEvent {
  const failure = eventFailure(error);
  const hint = isGivenUp ? 'This one is given up.' : failure.hint;
  return { name: 'notification.failed', to, attempts, ...failure, hint };
}
