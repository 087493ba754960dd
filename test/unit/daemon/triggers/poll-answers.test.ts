import { describe, expect, it, vi } from 'vitest';

import { answerPolls, pollAnswerOf, pollsToAnswer } from '../../../../src/daemon/triggers/poll-answers.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { PassReport } from '../../../../src/mirror/pass/pass.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import type { MirrorStore } from '../../../../src/mirror/store/disk.ts';

function reportOf(exitCode: PassReport['exitCode'], pulling: number, waiting: number): PassReport {
  const summary = {
    trigger: 'poll',
    durationMs: 1,
    targets: 2,
    pulled: 0,
    changed: 0,
    tried: 0,
    failed: 0,
    held: 0,
    missing: 0,
    downloadedBytes: 0,
    changedFiles: 0,
    pulling,
    waiting,
    processing: 0,
  } as const;
  return { results: [], summary, exitCode, isAllThatCanBe: true };
}

/** A store of which nothing can be had. */
function failing(error: Error): Pick<MirrorStore, 'layout' | 'lock'> {
  const check = vi.fn().mockRejectedValue(error);
  return { layout: layoutOf('/dev/null'), lock: { fd: -1, check, release: vi.fn() } };
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
      expect(pollAnswerOf({ report: reportOf(code, pulling, waiting), failure: null }, true)).toMatchObject({
        exitCode: expected,
        failure: null,
      });
    },
  );

  it('to a pass that failed is why, with the exit code of that', () => {
    const failure = new MirrorError('credentials.refused', 'refused', { hint: 'Renew it.' });
    expect(pollAnswerOf({ report: null, failure }, true)).toEqual({
      exitCode: 3,
      summary: null,
      failure: { code: 'credentials.refused', message: 'refused', hint: 'Renew it.' },
    });
  });

  it('is left for later where the disk fails, but a defect is none of that', async () => {
    const disk = failing(new MirrorError('disk.failed', 'EIO'));
    const answer = pollAnswerOf({ report: reportOf(0, 0, 0), failure: null }, true);
    expect(await pollsToAnswer(disk)).toEqual([]);
    await answerPolls(disk, ['id'], answer);
    await expect(answerPolls(failing(new Error('a defect')), ['id'], answer)).rejects.toThrow('a defect');
  });
});
