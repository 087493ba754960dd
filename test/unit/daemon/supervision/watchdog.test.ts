import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createProgressMonitor } from '../../../../src/daemon/supervision/progress-monitor.ts';
import { startTicker } from '../../../../src/daemon/triggers/ticker.ts';
import { livenessOf } from '../../../../src/daemon/status/readiness.ts';
import type { Liveness } from '../../../../src/daemon/status/status-schema.ts';
import { startWatchdog } from '../../../../src/daemon/supervision/supervise.ts';

describe('a progress', () => {
  let nowMs = 0;
  const progress = createProgressMonitor(
    () => false,
    () => nowMs,
  );

  it('counts silence only while there is work', () => {
    nowMs = 500;
    expect(progress.idleMs()).toBe(0);
    const end = progress.begin();
    nowMs = 800;
    expect(progress.idleMs()).toBe(300);
    progress.touch();
    expect(progress.idleMs()).toBe(0);
    nowMs = 900;
    end();
    expect(progress.idleMs()).toBe(0);
  });
});

const MINUTES_15 = 15 * 60_000;

describe('a watchdog', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is fed at once and on, and not while the work is stuck', async () => {
    let silentMs = 0;
    const feed = vi.fn<() => void>();
    const onStuck = vi.fn<(silentMs: number) => void>();
    const facts = { hasStarted: true, isPassing: true, isStopping: false };
    const liveness = (): Liveness => livenessOf(facts, silentMs, 120_000);
    const stop = startWatchdog({ watchdog: feed, watchdogIntervalMs: 200 }, liveness, onStuck);
    await vi.advanceTimersByTimeAsync(250);
    expect(feed).toHaveBeenCalledTimes(3);
    silentMs = MINUTES_15 + 1;
    await vi.advanceTimersByTimeAsync(300);
    expect(feed).toHaveBeenCalledTimes(3);
    expect(onStuck.mock.calls).toStrictEqual([[MINUTES_15 + 1]]);
    silentMs = 0;
    await vi.advanceTimersByTimeAsync(100);
    silentMs = MINUTES_15 * 2;
    await vi.advanceTimersByTimeAsync(100);
    expect(onStuck).toHaveBeenCalledTimes(2);
    stop();
    silentMs = 0;
    await vi.advanceTimersByTimeAsync(500);
    expect(feed).toHaveBeenCalledTimes(4);
  });
});

describe('a ticker', () => {
  it('ticks on new times once they are taken, and not on the old ones any more', async () => {
    const announced: number[] = [];
    const yearly = { schedule: '0 0 1 1 *', timezone: 'UTC' };
    const { promise: ticked, resolve: onTick } = Promise.withResolvers<void>();
    const ticker = startTicker(yearly, onTick, (nextAtMs) => announced.push(nextAtMs));
    expect(announced).toHaveLength(1);
    ticker.take({ schedule: '* * * * * *', timezone: 'UTC' });
    expect(announced[1]).toBeLessThan(announced[0] ?? 0);
    await ticked;
    ticker.stop();
  });
});

describe('a ticker on a machine whose clock is set', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['back by three days', -72 * 3_600_000],
    ['ahead by three days', 72 * 3_600_000],
  ])('%s ticks at once, and then on its schedule by the new time', async (_how, jumpMs) => {
    vi.useFakeTimers({ now: Date.parse('2026-06-02T10:00:30Z') });
    const beganMs = Date.now();
    let ticks = 0;
    const announced: number[] = [];
    const ticker = startTicker(
      { schedule: '*/5 * * * *', timezone: 'UTC' },
      () => {
        ticks += 1;
      },
      (nextAtMs) => announced.push(nextAtMs),
    );
    vi.setSystemTime(beganMs + jumpMs);
    await vi.advanceTimersByTimeAsync(11_000);
    expect(ticks).toBe(1);
    expect(announced.at(-1)).toBe(beganMs + jumpMs + 270_000);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(ticks).toBe(3);
    ticker.stop();
  });
});
