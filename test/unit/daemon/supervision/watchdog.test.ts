import { beforeEach, describe, expect, it, vi } from 'vitest';

import { createProgressMonitor } from '../../../../src/daemon/supervision/progress-monitor.ts';
import { livenessOf } from '../../../../src/daemon/status/readiness.ts';
import type { Liveness } from '../../../../src/daemon/status/status-schema.ts';
import { startWatchdog } from '../../../../src/daemon/supervision/supervise.ts';

it('a progress counts silence only while there is work', () => {
  let nowMs = 500;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const progress = createProgressMonitor(() => false);
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

const MINUTES_15 = 15 * 60_000;

describe('a watchdog', () => {
  beforeEach(() => void vi.useFakeTimers());

  it('is fed from the start, but not while the work is stuck', async () => {
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
