import { describe, expect, it } from 'vitest';

import {
  barsOf,
  lagBuckets,
  lagSentence,
  oldestOf,
  outcomeOf,
  passBars,
  passClause,
  passesSentence,
} from '../../../../src/daemon/page/charts.js';
import { HOUR_MS, MINUTE_MS, NOW_MS } from '../../../support/builders.ts';
import { daemonReport, passHistory, passNote, targetStatus } from '../../../support/page-reports.ts';

const FAILED = passNote({
  result: 'failed',
  summary: null,
  failure: { code: 'service.timeout', message: 'No answer.', hint: null },
});
const ABANDONED = passNote({ result: 'abandoned', summary: null });

describe('the spread of times since the last verification', () => {
  const ages = [0, 3, 4, 10, 15, 16, 100, 1000].map((minutes) =>
    targetStatus({ repository: `r${minutes}`, verifiedAtMs: NOW_MS - minutes * MINUTE_MS }),
  );
  const never = targetStatus({ repository: 'never', verifiedAtMs: null });
  const left = targetStatus({ repository: 'left', state: 'unselected', verifiedAtMs: null });
  const buckets = lagBuckets([...ages, never, left], 15 * MINUTE_MS, NOW_MS);

  it('counts each target once, but for those that the settings leave out', () => {
    expect(buckets.map(({ count }) => count)).toEqual([2, 1, 1, 1, 1, 1, 1, 1]);
  });

  it('tells what is in time from what is stale', () => {
    expect(buckets.map(({ tone }) => tone)).toEqual(['ok', 'ok', 'ok', 'ok', 'warn', 'warn', 'bad', 'bad']);
    expect(buckets.map(({ label }) => label)).toContain('≤ 15 min');
  });

  it('is a sentence as well', () => {
    expect(lagSentence(buckets)).toBe(
      'Time since last verified, of 9 targets: 2 ≤ 4 min, 1 ≤ 8 min, 1 ≤ 11 min, 1 ≤ 15 min, 1 ≤ 30 min, 1 ≤ 2 h, 1 > 2 h, 1 never.',
    );
    expect(lagSentence(lagBuckets([], MINUTE_MS, NOW_MS))).toBe('There are no targets yet.');
  });

  it('takes a verification in the future, by a clock that was wrong, for a young one', () => {
    const target = targetStatus({ verifiedAtMs: NOW_MS + HOUR_MS });
    expect(lagBuckets([target], 15 * MINUTE_MS, NOW_MS)[0]?.count).toBe(1);
  });

  it('has an oldest target', () => {
    expect(oldestOf(daemonReport({ targets: ages }))?.repository).toBe('r1000');
    expect(oldestOf(daemonReport({ targets: [...ages, never, left] }))?.repository).toBe('never');
    expect(oldestOf(daemonReport({ targets: [left] }))).toBeNull();
  });
});

describe('bars', () => {
  const area = { widthPx: 100, heightPx: 50, gapPx: 4 };

  it('stay inside their area and apart from each other', () => {
    const bars = barsOf([0, 1, 1000, 500], area);
    for (const [index, { x, y, width, height }] of bars.entries()) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x + width).toBeLessThanOrEqual(area.widthPx + 1e-9);
      expect(y + height).toBeCloseTo(area.heightPx);
      const next = bars[index + 1];
      if (next !== undefined) expect(x + width).toBeLessThan(next.x);
    }
  });

  it('are seen for one of a thousand, and not for none', () => {
    expect(barsOf([0, 1, 1000], area).map(({ height }) => height)).toEqual([0, 3, 50]);
    expect(barsOf([0, 0], area).map(({ height }) => height)).toEqual([0, 0]);
    expect(barsOf([], area)).toEqual([]);
  });
});

describe('the history of passes', () => {
  it('shows the latest that fit, the last at the right', () => {
    const passes = passHistory(300);
    const { bars, topMs } = passBars(passes, { widthPx: 400, heightPx: 90, stepPx: 4 });
    expect(bars).toHaveLength(100);
    expect(bars.at(-1)?.pass).toBe(passes.at(-1));
    const last = bars.at(-1)?.box;
    expect((last?.x ?? 0) + (last?.width ?? 0)).toBeLessThanOrEqual(400);
    expect(Math.max(...bars.map(({ pass }) => pass.durationMs))).toBeLessThanOrEqual(topMs);
    for (const { box } of bars) expect(box.y).toBeGreaterThanOrEqual(0);
  });

  it('tells what became of each', () => {
    expect([FAILED, ABANDONED, passNote({}, 2, 1), passNote({}, 2), passNote()].map(outcomeOf)).toEqual([
      'failed',
      'abandoned',
      'partly',
      'changed',
      'quiet',
    ]);
    expect([FAILED, ABANDONED, passNote({}, 2, 1), passNote()].map(passClause)).toEqual([
      'failed: No answer',
      'abandoned',
      '2 targets changed, 1 failed',
      'nothing changed',
    ]);
  });

  it('is a sentence as well', () => {
    expect(passesSentence([])).toBe('No pass has finished yet.');
    expect(
      passesSentence([passNote({ durationMs: 1000 }), FAILED, passNote({ durationMs: 3000 }, 0, 1)]),
    ).toBe('3 passes, 1 failed, 1 with targets that failed. Median 1.4 s, longest 3.0 s.');
    expect(passesSentence([passNote()])).toBe('1 pass, none failed. Median 1.4 s, longest 1.4 s.');
  });
});
