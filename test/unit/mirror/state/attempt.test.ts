import { expect, it, onTestFinished, vi } from 'vitest';

import { createAttempt } from '../../../../src/mirror/state/attempt.ts';

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
