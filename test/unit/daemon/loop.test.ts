import { setImmediate as settle } from 'node:timers/promises';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { createLoop } from '../../../src/daemon/loop.ts';
import type { Trigger } from '../../../src/mirror/pass/events.ts';

/** A loop, the triggers of the passes that began, their signals, and the errors that it reported. */
function bench() {
  const begun: Trigger[] = [];
  const defects: unknown[] = [];
  const signals: AbortSignal[] = [];
  const hands: PromiseWithResolvers<void>[] = [];
  const loop = createLoop(
    (trigger, signal) => {
      begun.push(trigger);
      signals.push(signal);
      const hand = Promise.withResolvers<void>();
      hands.push(hand);
      return hand.promise;
    },
    (error) => defects.push(error),
  );
  /** Ends the current pass, and lets everything run that waits only for its turn. */
  const end = async (error?: Error): Promise<void> => {
    const hand = hands.shift();
    if (error === undefined) hand?.resolve();
    else hand?.reject(error);
    await settle();
  };
  return { loop, begun, defects, signals, end };
}

describe('the loop', () => {
  it('does one pass at a time, and one more for ten triggers during it, named after the first', async () => {
    const { loop, begun, end } = bench();
    loop.trigger('start');
    for (let times = 0; times < 10; times += 1) loop.trigger(times === 0 ? 'schedule' : 'signal');
    await settle();
    expect(begun).toEqual(['start']);
    await end();
    expect(begun).toEqual(['start', 'schedule']);
    await end();
    expect(begun).toEqual(['start', 'schedule']);
  });

  it('abandons the current pass when stopped, and waits for its end', async () => {
    const { loop, begun, signals, end } = bench();
    loop.trigger('start');
    loop.trigger('schedule');
    let isStopped = false;
    const stopped = (async () => {
      await loop.stop();
      isStopped = true;
    })();
    await settle();
    expect([isStopped, signals[0]?.aborted]).toEqual([false, true]);
    await end();
    await stopped;
    expect(begun).toEqual(['start']);
  });

  it('reports a pass that throws, and stops without throwing', async () => {
    const { loop, defects, end } = bench();
    loop.trigger('start');
    await end(new Error('broken'));
    expect(defects).toEqual([new Error('broken')]);
    await loop.stop();
  });
});

describe('requests for a pass', () => {
  // Promises settle through `setImmediate`, which stays real.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));

  /** A loop whose first pass took a time, in milliseconds. */
  async function afterPass(durationMs: number): Promise<ReturnType<typeof bench>> {
    const made = bench();
    made.loop.trigger('start');
    vi.advanceTimersByTime(durationMs);
    await made.end();
    return made;
  }

  it('start one pass immediately, however many they are', async () => {
    const { loop, begun, end } = await afterPass(1);
    vi.advanceTimersByTime(1000);
    for (let request = 0; request < 50; request += 1) loop.ask();
    vi.advanceTimersByTime(1);
    expect(begun).toEqual(['start', 'poll']);
    await end();
    vi.advanceTimersByTime(100_000);
    expect(begun).toEqual(['start', 'poll']);
  });

  it.each([
    [7000, 7000],
    [0, 500],
    [10_000_000, 60_000],
  ])('wait after a pass of %i ms for %i ms', async (durationMs, pauseMs) => {
    const { loop, begun } = await afterPass(durationMs);
    loop.ask();
    vi.advanceTimersByTime(pauseMs - 1);
    expect(begun).toEqual(['start']);
    vi.advanceTimersByTime(1);
    expect(begun).toEqual(['start', 'poll']);
  });

  it('that arrive during a pass wait after its end for as long as it took, even if it fails', async () => {
    const { loop, begun, end } = await afterPass(1);
    loop.trigger('schedule');
    for (let passes = 2; passes < 5; passes += 1) {
      loop.ask();
      vi.advanceTimersByTime(8000);
      expect(begun).toHaveLength(passes);
      await end(new Error('broken'));
      vi.advanceTimersByTime(7999);
      expect(begun).toHaveLength(passes);
      vi.advanceTimersByTime(1);
      expect(begun).toHaveLength(passes + 1);
    }
  });

  it('that wait are over once another pass begins', async () => {
    const { loop, begun, end } = await afterPass(7000);
    loop.ask();
    loop.trigger('schedule');
    vi.advanceTimersByTime(10_000);
    await end();
    vi.advanceTimersByTime(100_000);
    expect(begun).toEqual(['start', 'schedule']);
  });

  it('are dropped before the first pass, and start none once the loop has stopped', async () => {
    const { loop, begun } = bench();
    loop.ask();
    vi.advanceTimersByTime(100_000);
    expect(begun).toEqual([]);
    const { loop: stopped, begun: before } = await afterPass(1);
    stopped.ask();
    await stopped.stop();
    stopped.ask();
    vi.advanceTimersByTime(100_000);
    await settle();
    expect(before).toEqual(['start']);
  });
});
