import { describe, expect, it } from 'vitest';

import * as page from '../../../../src/daemon/page/format.js';
import { HOUR_MS, MINUTE_MS, NOW_MS } from '../../../support/builders.ts';

describe('the words of the page', () => {
  it.each([
    [0, 'just now'],
    [1999, 'just now'],
    [2400, '2 s ago'],
    [70_999, '70 s ago'],
    [5 * MINUTE_MS, '5 min ago'],
    [-1500, 'just now'],
    [-5 * MINUTE_MS, 'in 5 min'],
  ])('say of what is %d ms past: %s', (pastMs, text) => {
    expect(page.agoText(NOW_MS - pastMs, NOW_MS)).toBe(text);
  });

  it.each([
    [-1, 'due'],
    [0, 'due'],
    [1, '0:01'],
    [59_000, '0:59'],
    [222_000, '3:42'],
    [HOUR_MS, '1:00:00'],
    [26 * HOUR_MS + 5000, '26:00:05'],
    [72 * HOUR_MS, '3 days'],
  ])('count %d ms down as %s', (leftMs, text) => {
    expect(page.countdownText(NOW_MS + leftMs, NOW_MS)).toBe(text);
  });

  it('count running durations in whole seconds', () => {
    const texts = [0, 999, 1000, 9999, 10_500, 200_000].map(page.wholeText);
    expect(texts).toEqual(['0 s', '0 s', '1 s', '9 s', '10 s', '3 min']);
  });

  it('say that a time is invalid', () => {
    expect(page.utcText(Number.NaN)).toBe('an unknown time');
    expect(page.utcText(NOW_MS)).toBe('2025-06-02T10:00:00Z');
  });

  it('separate thousands', () => {
    expect(page.counted(1, 'target')).toBe('1 target');
    expect(page.counted(5000, 'target')).toBe('5,000 targets');
    expect(page.counted(2, 'pass', 'passes')).toBe('2 passes');
  });
});
