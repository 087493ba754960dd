import * as fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { createAttempt, PAGE_ENTRIES, pagesOf } from '../../../../src/mirror/state/adapter.ts';

describe('pages', () => {
  it('have everything, in order, and none is empty or too large', () => {
    const lengths = fc.array(fc.oneof(fc.nat(10), fc.nat(10 * 1024 * 1024)), { maxLength: 50 });
    fc.assert(
      fc.property(lengths, fc.constantFrom(1, PAGE_ENTRIES), (some, times) => {
        const all = Array.from({ length: times }, () => some).flat();
        const pages = [...pagesOf(all, (length) => length)];
        expect(pages.flat()).toEqual(all);
        for (const page of pages) {
          const length = page.reduce((sum, each) => sum + each, 0);
          expect(page.length).toBeGreaterThan(0);
          expect(page.length).toBeLessThanOrEqual(PAGE_ENTRIES);
          expect(page.length === 1 || length <= 4 * 1024 * 1024).toBe(true);
        }
      }),
      { numRuns: 30 },
    );
  });
});

it('a store that fails is reported once, and once more when it answers again', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const reports: string[] = [];
  const attempt = createAttempt({
    onFailed: ({ code }) => reports.push(code),
    onRecovered: () => reports.push('recovered'),
  });
  const ask = (call: () => Promise<string>): Promise<string> => attempt(call).catch(() => 'failed');
  const failing = (): Promise<string> => Promise.reject(new Error('gone'));
  const answering = (): Promise<string> => Promise.resolve('here');
  expect(await ask(answering)).toBe('here');
  for (let minutes = 0; minutes < 3; minutes += 1) {
    expect(await ask(failing)).toBe('failed');
    vi.advanceTimersByTime(60_000);
  }
  expect(await ask(answering)).toBe('here');
  expect(await ask(answering)).toBe('here');
  expect(reports).toEqual(['state.unavailable', 'recovered']);
});
