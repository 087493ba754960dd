import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { eventFailure, type EventSink } from '../../mirror/pass/events.ts';
import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Notification } from './notifications.ts';
import { isChosen } from '../../config/notification-types.ts';
import { signatureOf } from './signature.ts';

/** Sends one request. @throws MirrorError `notification.failed` when there is no answer */
export type Send = (request: {
  readonly method: 'GET' | 'POST';
  readonly address: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}) => Promise<{ readonly status: number; readonly retryAfterMs: number | undefined }>;

/** Where notifications go, as the settings have it now. */
export interface WebhookTarget {
  readonly address: string;
  /** Null where they are not signed. */
  readonly key: string | null;
  /** See `isChosen`. */
  readonly filters: readonly string[];
}

/** What the webhook needs of the rest. */
export interface WebhookPorts {
  readonly target: () => WebhookTarget | null;
  readonly send: Send;
  /** Masks the secrets in a text. */
  readonly scrub: (text: string) => string;
  /** The name of this machine, which every notification holds. */
  readonly host: string;
  readonly emit: EventSink;
  /** Called whenever nothing waits any more, as all was delivered, given up after its attempts, or not chosen. */
  readonly onDone: () => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Notifications on their way, one after the other, beside everything else. */
export interface Webhook {
  readonly tell: (notifications: readonly Notification[]) => void;
  /** Delivers what waits, without waiting between attempts any more; what is left after the time is given up. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

interface Message {
  readonly id: string;
  readonly body: string;
}

/** Notifications that wait, at most. */
const MOST_WAITING = 1000;

/** Attempts at one notification, and the waits between them in milliseconds: about an hour in all. */
const MOST_ATTEMPTS = 12;
const BACK_OFF = { firstDelayMs: 5000, maxDelayMs: 600_000 };

/** Makes a webhook. */
export function createWebhook(ports: WebhookPorts): Webhook {
  const deliveries = new Deliveries(ports);
  return {
    tell: (notifications) => deliveries.tell(notifications),
    close: (timeoutMs) => deliveries.close(timeoutMs),
  };
}

class Deliveries implements Webhook {
  readonly #ports: WebhookPorts;
  readonly #waiting: Message[] = [];
  /** Ends the waits between attempts. */
  readonly #closing = new AbortController();
  /** Ends the running attempt. */
  readonly #stop = new AbortController();
  #delivering: Promise<void> | null = null;
  #hasDropped = false;
  /** An address that said that it is gone. */
  #gone: string | null = null;

  constructor(ports: WebhookPorts) {
    this.#ports = ports;
  }

  tell(notifications: readonly Notification[]): void {
    const target = this.#ports.target();
    if (target === null || target.address === this.#gone) return;
    for (const each of notifications) {
      if (isChosen(each.type, target.filters)) this.#waiting.push(this.#messageOf(each));
    }
    this.#dropOldest();
    if (this.#waiting.length > 0) this.#deliver();
    else this.#ports.onDone();
  }

  async close(timeoutMs: number): Promise<void> {
    this.#closing.abort();
    const timer = setTimeout(() => this.#stop.abort(), timeoutMs);
    await this.#delivering;
    clearTimeout(timer);
  }

  #messageOf({ type, fields }: Notification): Message {
    const { now, host, scrub } = this.#ports;
    const id = `msg_${randomUUID()}`;
    const body = JSON.stringify({ id, type, at: new Date(now()).toISOString(), host, ...fields });
    return { id, body: scrub(body) };
  }

  #dropOldest(): void {
    if (this.#waiting.length <= MOST_WAITING) return;
    this.#waiting.splice(0, this.#waiting.length - MOST_WAITING);
    if (this.#hasDropped) return;
    this.#hasDropped = true;
    const message = `More than ${MOST_WAITING} notifications wait: the oldest are dropped.`;
    this.#report(new MirrorError('notification.failed', message), 0);
  }

  #deliver(): void {
    this.#delivering ??= this.#deliverAll().finally(() => {
      this.#delivering = null;
    });
  }

  async #deliverAll(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const isOver = await this.#deliverOne(next);
      if (!isOver) {
        this.#waiting.length = 0;
        return;
      }
      // The oldest may have been dropped while it was on its way.
      if (this.#waiting[0] === next) this.#waiting.shift();
    }
    this.#hasDropped = false;
    this.#ports.onDone();
  }

  /** Tries until a notification is delivered or given up. Gives false when nothing more is to be sent. */
  async #deliverOne(message: Message): Promise<boolean> {
    for (let attempts = 1; ; attempts += 1) {
      const isLast = this.#closing.signal.aborted;
      const target = this.#ports.target();
      if (target === null) return false;
      let waitMs = 0;
      try {
        const answer = await this.#ports.send({
          ...requestOf(message, target, this.#ports.now()),
          signal: this.#stop.signal,
        });
        if (answer.status >= 200 && answer.status < 300) return true;
        waitMs = answer.retryAfterMs ?? 0;
        throw refused(target.address, answer.status);
      } catch (error) {
        if (this.#stop.signal.aborted) return false;
        this.#report(error, attempts);
        if (isGone(error)) {
          this.#gone = target.address;
          return false;
        }
      }
      if (isLast) return false;
      if (attempts === MOST_ATTEMPTS) return true;
      const delayMs = backOffDelayMs(BACK_OFF, attempts, Math.random(), waitMs);
      await sleep(delayMs, undefined, { signal: this.#closing.signal }).catch(() => {});
    }
  }

  #report(error: unknown, attempts: number): void {
    const failure = eventFailure(error);
    const hint = attempts === MOST_ATTEMPTS ? 'This notification is given up.' : failure.hint;
    this.#ports.emit({ name: 'notification.failed', to: 'webhook', attempts, ...failure, hint });
  }
}

function requestOf(
  { id, body }: Message,
  { address, key }: WebhookTarget,
  nowMs: number,
): Omit<Parameters<Send>[0], 'signal'> {
  const timestamp = Math.floor(nowMs / 1000);
  return {
    method: 'POST',
    address,
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'workbook-mirror',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      ...(key === null ? {} : { 'webhook-signature': signatureOf(key, id, timestamp, body) }),
    },
  };
}

/** The answer of a receiver that wants no more (Standard Webhooks specification, "Deliverability and reliability"). */
class GoneError extends MirrorError {}

function isGone(error: unknown): boolean {
  return error instanceof GoneError;
}

function refused(address: string, status: number): MirrorError {
  const { origin } = new URL(address);
  if (status === 410) {
    return new GoneError('notification.failed', `${origin} wants no notifications any more (status 410).`, {
      hint: 'Nothing more is sent there until hooks.webhook is another address, or the program starts anew.',
    });
  }
  const isRedirect = status >= 300 && status < 400;
  return new MirrorError('notification.failed', `${origin} did not take it (status ${status}).`, {
    hint: isRedirect
      ? 'Redirects are not followed: give the final address.'
      : 'Check the address, and what stands behind it. It is tried again by itself.',
  });
}
