import { setTimeout as sleep } from 'node:timers/promises';

import { eventFailure, type EventSink } from '../../mirror/pass/events.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Send } from './webhook.ts';

/** What the heartbeat needs of the rest. */
export interface HeartbeatPorts {
  /** The address as the settings have it now; null for none. */
  readonly address: () => string | null;
  readonly send: Send;
  readonly emit: EventSink;
}

/** A sign of life to a service that sounds an alarm when it does not come. */
export interface Heartbeat {
  /** Gives a sign, unless the one before is still on its way. */
  readonly beat: () => void;
  /** Lets the one that is on its way arrive, for so long, in milliseconds. */
  readonly close: (timeoutMs: number) => Promise<void>;
}

/** Waits before further attempts, in milliseconds; after them the next pass gives the next sign. */
const RETRIES_AFTER_MS = [2000, 10_000];

/** Makes a heartbeat. */
export function createHeartbeat(ports: HeartbeatPorts): Heartbeat {
  const closing = new AbortController();
  const stop = new AbortController();
  let beating: Promise<void> | null = null;
  const attempt = async (address: string, attempts: number): Promise<boolean> => {
    try {
      const { status } = await ports.send({
        method: 'GET',
        address,
        headers: { 'user-agent': 'workbook-mirror' },
        signal: stop.signal,
      });
      if (status >= 200 && status < 300) return true;
      throw new MirrorError(
        'notification.failed',
        `${new URL(address).origin} did not take it (status ${status}).`,
        { hint: 'Check the address hooks.heartbeat; redirects are not followed.' },
      );
    } catch (error) {
      if (!stop.signal.aborted)
        ports.emit({ name: 'notification.failed', to: 'heartbeat', attempts, ...eventFailure(error) });
      return false;
    }
  };
  const beatOnce = async (address: string): Promise<void> => {
    if (await attempt(address, 1)) return;
    for (const [index, delayMs] of RETRIES_AFTER_MS.entries()) {
      if (closing.signal.aborted) return;
      await sleep(delayMs, undefined, { signal: closing.signal }).catch(() => {});
      if (await attempt(address, index + 2)) return;
    }
  };
  return {
    beat: () => {
      const address = ports.address();
      if (address === null || closing.signal.aborted) return;
      beating ??= beatOnce(address).finally(() => {
        beating = null;
      });
    },
    close: async (timeoutMs) => {
      closing.abort();
      const timer = setTimeout(() => stop.abort(), timeoutMs);
      await beating;
      clearTimeout(timer);
    },
  };
}
