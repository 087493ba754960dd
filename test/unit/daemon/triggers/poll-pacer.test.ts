import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  createPollPacer,
  pauseAfterPassMs,
  type PollPacer,
} from '../../../../src/daemon/triggers/poll-pacer.ts';

const FAILURE = { code: 'service.busy', message: 'busy', hint: null } as const;

describe('requests for a pass', () => {
  let made: number;
  let pacer: PollPacer;

  beforeEach(() => {
    vi.useFakeTimers();
    made = 0;
    pacer = createPollPacer();
    pacer.onDue(() => (made += 1));
  });

  afterEach(() => {
    pacer.close();
    vi.useRealTimers();
  });

  it('start one pass immediately, however many they are', () => {
    for (let request = 0; request < 50; request += 1) pacer.ask();
    vi.advanceTimersByTime(1);
    expect(made).toBe(1);
  });

  it('wait after a pass for as long as it took', () => {
    pacer.sink({ name: 'pass.failed', trigger: 'poll', durationMs: 7000, ...FAILURE });
    pacer.ask();
    vi.advanceTimersByTime(6999);
    expect(made).toBe(0);
    vi.advanceTimersByTime(1);
    expect(made).toBe(1);
  });

  it('that arrive during a pass wait after its end for as long as it took', () => {
    pacer.ask();
    vi.advanceTimersByTime(1);
    for (let round = 1; round <= 3; round += 1) {
      pacer.sink({ name: 'pass.started', trigger: 'poll' });
      pacer.ask();
      vi.advanceTimersByTime(8000);
      expect(made).toBe(round);
      pacer.sink({ name: 'pass.failed', trigger: 'poll', durationMs: 8000, ...FAILURE });
      vi.advanceTimersByTime(7999);
      expect(made).toBe(round);
      vi.advanceTimersByTime(1);
      expect(made).toBe(round + 1);
    }
  });

  it('that arrive before the pass they caused begins start one more after it', () => {
    pacer.ask();
    vi.advanceTimersByTime(1);
    pacer.ask();
    vi.advanceTimersByTime(5000);
    expect(made).toBe(1);
    pacer.sink({ name: 'pass.started', trigger: 'poll' });
    pacer.sink({ name: 'pass.failed', trigger: 'poll', durationMs: 10, ...FAILURE });
    vi.advanceTimersByTime(5000);
    expect(made).toBe(2);
  });

  it('start no pass once the daemon closes', () => {
    pacer.ask();
    pacer.close();
    pacer.ask();
    vi.advanceTimersByTime(100_000);
    expect(made).toBe(0);
  });

  it('leave the service a pause, and never wait for hours', () => {
    fc.assert(
      fc.property(fc.integer({ min: 500, max: 60_000 }), (durationMs) => {
        expect(pauseAfterPassMs(durationMs)).toBe(durationMs);
      }),
    );
    expect([0, 10_000_000].map(pauseAfterPassMs)).toEqual([500, 60_000]);
  });
});
