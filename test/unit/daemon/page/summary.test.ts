import { describe, expect, it } from 'vitest';
import { describePhase } from '../../../../src/app/messages.ts';
import type { PullProgress } from '../../../../src/mirror/pass/events.ts';
import { pullText } from '../../../../src/daemon/page/summary.js';

const PULL: PullProgress = {
  target: 'Big/main',
  phase: 'downloading',
  startedAtMs: 0,
  downloadedBytes: 512e6,
  doneBytes: 512e6,
  totalBytes: 2e9,
  isEstimate: false,
  bytesPerSecond: 41e6,
  leftMs: 36_293,
};

describe('a pull on the status page', () => {
  it.each<Partial<PullProgress>>([
    {},
    { isEstimate: true },
    { totalBytes: null, leftMs: null },
    { totalBytes: 100, leftMs: 0 },
    { bytesPerSecond: null, leftMs: null },
    { phase: 'unpacking' },
    { phase: 'publishing', doneBytes: 0, totalBytes: null, leftMs: null },
  ])('is described as in the commands: %j', (fields) => {
    expect(pullText({ ...PULL, ...fields })).toBe(describePhase({ ...PULL, ...fields }));
  });
});
