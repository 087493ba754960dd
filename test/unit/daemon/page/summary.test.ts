import { expect, it } from 'vitest';
import { describePhase } from '../../../../src/app/messages.ts';
import type { PullProgress } from '../../../../src/mirror/pass/events.ts';
import { pullText } from '../../../../src/daemon/page/summary.js';
import { pullProgress } from '../../../support/builders.ts';

it.each<Partial<PullProgress>>([
  {},
  { isEstimate: true },
  { totalBytes: null, leftMs: null },
  { totalBytes: 100, leftMs: 0 },
  { bytesPerSecond: null, leftMs: null },
  { phase: 'unpacking' },
  { phase: 'publishing', doneBytes: 0, totalBytes: null, leftMs: null },
])('a pull on the status page is described as in the commands: %j', (fields) => {
  const pull = pullProgress(fields);
  expect(pullText(pull)).toBe(describePhase(pull));
});
