import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  answerPolls,
  createPollPacer,
  pauseAfterPassMs,
  pollAnswerOf,
  type PollPacer,
  pollsToAnswer,
} from '../../../../src/daemon/triggers/polls.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { MirrorStore } from '../../../../src/mirror/store/store.ts';
import type { PassReport } from '../../../../src/mirror/pass/pass.ts';

describe('requests for a pass', () => {
  let made: number;
  let pacer: PollPacer;

  beforeEach(() => {
    vi.useFakeTimers();
    made = 0;
    pacer = createPollPacer({ monotonic: () => performance.now() });
    pacer.onDue(() => (made += 1));
  });

  afterEach(() => {
    pacer.close();
    vi.useRealTimers();
  });

  it('make one pass at once, however many they are', () => {
    for (let request = 0; request < 50; request += 1) pacer.ask();
    vi.advanceTimersByTime(1);
    expect(made).toBe(1);
  });

  it('wait after a pass for as long as that took', () => {
    pacer.sink({ name: 'pass.failed', trigger: 'poll', durationMs: 7000, ...FAILURE });
    pacer.ask();
    vi.advanceTimersByTime(6999);
    expect(made).toBe(0);
    vi.advanceTimersByTime(1);
    expect(made).toBe(1);
  });

  it('make no pass once the daemon closes', () => {
    pacer.ask();
    pacer.close();
    vi.advanceTimersByTime(100_000);
    expect(made).toBe(0);
  });

  it('never have the service polled for more than half of the time by long passes, nor wait for hours', () => {
    fc.assert(
      fc.property(fc.integer({ min: 500, max: 60_000 }), (durationMs) => {
        expect(pauseAfterPassMs(durationMs)).toBe(durationMs);
      }),
    );
    expect([0, 10_000_000].map(pauseAfterPassMs)).toEqual([500, 60_000]);
  });
});

const FAILURE = { code: 'service.busy', message: 'busy', hint: null } as const;

function reportOf(exitCode: PassReport['exitCode'], pulling: number, waiting: number): PassReport {
  const summary = {
    trigger: 'poll',
    durationMs: 1,
    targets: 2,
    pulled: 0,
    changed: 0,
    failed: 0,
    held: 0,
    downloadedBytes: 0,
    changedFiles: 0,
    pulling,
    waiting,
    processing: 0,
  } as const;
  return { results: [], summary, exitCode };
}

/** A store of which nothing can be had. */
function failing(error: Error): Pick<MirrorStore, 'takePolls' | 'answerPolls'> {
  return { takePolls: vi.fn().mockRejectedValue(error), answerPolls: vi.fn().mockRejectedValue(error) };
}

describe('the answer', () => {
  it.each([
    [0, 0, 0, 0],
    [0, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1],
    [70, 1, 0, 70],
  ] as const)(
    'to a pass that ends with %i, with %i and %i pulls to do, is %i',
    (code, pulling, waiting, expected) => {
      expect(pollAnswerOf({ report: reportOf(code, pulling, waiting), failure: null })).toMatchObject({
        exitCode: expected,
        failure: null,
      });
    },
  );

  it('to a pass that failed is why, with the exit code of that', () => {
    const failure = new MirrorError('credentials.refused', 'refused', { hint: 'Renew it.' });
    expect(pollAnswerOf({ report: null, failure })).toEqual({
      exitCode: 3,
      summary: null,
      failure: { code: 'credentials.refused', message: 'refused', hint: 'Renew it.' },
    });
  });

  it('is left for later where the disk fails, but a defect is none of that', async () => {
    const disk = failing(new MirrorError('disk.failed', 'EIO'));
    const answer = pollAnswerOf({ report: reportOf(0, 0, 0), failure: null });
    expect(await pollsToAnswer(disk)).toEqual([]);
    await answerPolls(disk, ['id'], answer);
    await expect(pollsToAnswer(failing(new Error('a defect')))).rejects.toThrow('a defect');
  });
});
