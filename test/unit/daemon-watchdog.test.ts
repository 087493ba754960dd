import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createPulse } from '../../src/daemon/pulse.ts';
import { startTicker } from '../../src/daemon/ticker.ts';
import { startWatchdog } from '../../src/daemon/watchdog.ts';

describe('a pulse', () => {
  let nowMs = 0;
  const pulse = createPulse(() => nowMs);

  it('counts silence only while there is work', () => {
    nowMs = 500;
    expect(pulse.silentMs()).toBe(0);
    const end = pulse.begin();
    nowMs = 800;
    expect(pulse.silentMs()).toBe(300);
    pulse.beat();
    expect(pulse.silentMs()).toBe(0);
    nowMs = 900;
    end();
    expect(pulse.silentMs()).toBe(0);
  });
});

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
    const stop = startWatchdog({
      silentMs: () => silentMs,
      stuckAfterMs: () => 1000,
      feed,
      intervalMs: 100,
      onStuck,
    });
    await vi.advanceTimersByTimeAsync(250);
    expect(feed).toHaveBeenCalledTimes(3);
    silentMs = 1001;
    await vi.advanceTimersByTimeAsync(300);
    expect(feed).toHaveBeenCalledTimes(3);
    expect(onStuck.mock.calls).toStrictEqual([[1001]]);
    silentMs = 0;
    await vi.advanceTimersByTimeAsync(100);
    silentMs = 2000;
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
    const ticker = await startTicker(yearly, onTick, (nextAtMs) => announced.push(nextAtMs));
    expect(announced).toHaveLength(1);
    const abandoned = await ticker.prepare({ schedule: '* * * * * *', timezone: 'UTC' });
    await abandoned.abandon();
    const prepared = await ticker.prepare({ schedule: '* * * * * *', timezone: 'UTC' });
    expect(announced).toHaveLength(1);
    prepared.take();
    expect(announced[1]).toBeLessThan(announced[0] ?? 0);
    await ticked;
    await ticker.stop();
  });
});
