import { expect, it, onTestFinished, vi } from 'vitest';

import { Fetches } from '../../../../src/server/external/fetches.ts';
import type { RepositoryIndex } from '../../../../src/server/git/repository-index.ts';

const ROW = {
  id: '0b0e7a52-7d8c-4b59-8a3c-0d6f3c1b2a10',
  name: 'plan',
  full_name: 'host/plan.git',
  url: 'https://host/plan.git',
  created_at: '2026-01-02T03:04:05.000000+00:00',
  source: 'https://host/plan.git',
  cloned: true,
};

it('leaves no timer behind when fetches in a row fail', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const index = { list: () => [ROW], find: () => ROW } as unknown as RepositoryIndex;
  const told: string[] = [];
  const begun: Array<(error: Error) => void> = [];
  const pull = (): Promise<boolean> => new Promise((_, reject) => begun.push(reject));
  const fetches = new Fetches(index, (line) => told.push(line), pull);
  const first = fetches.fetch(ROW.id);
  await vi.waitFor(() => expect(begun).toHaveLength(1));
  // The second one is requested while the first one runs.
  const second = fetches.fetch(ROW.id);
  begun[0]?.(new Error('no'));
  await expect(first).rejects.toThrow('no');
  await vi.waitFor(() => expect(begun).toHaveLength(2));
  begun[1]?.(new Error('no again'));
  await expect(second).rejects.toThrow('no again');
  expect(told).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(1);
  await fetches.close();
  expect(vi.getTimerCount()).toBe(0);
});
