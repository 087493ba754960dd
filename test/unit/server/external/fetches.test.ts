import { expect, it, vi } from 'vitest';

import { Fetches } from '../../../../src/server/external/fetches.ts';

const ROW = {
  id: '0b0e7a52-7d8c-4b59-8a3c-0d6f3c1b2a10',
  name: 'plan',
  full_name: 'host/plan.git',
  url: 'https://host/plan.git',
  created_at: '2026-01-02T03:04:05.000000+00:00',
  source: 'https://host/plan.git',
  cloned: true,
};

/** The fetches of one repository; `begun` has a function for each that makes it fail. */
function fetchesOf(row: typeof ROW) {
  vi.useFakeTimers();
  const told: string[] = [];
  const begun: Array<(error: Error) => void> = [];
  const pull = (): Promise<boolean> => new Promise((_, reject) => begun.push(reject));
  return {
    fetches: new Fetches(
      () => [row],
      (line) => told.push(line),
      pull,
    ),
    told,
    begun,
  };
}

it('Fetches leaves no timer behind when fetches in a row fail', async () => {
  const { fetches, told, begun } = fetchesOf(ROW);
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

it('waits after a first clone that fails during a comparison', async () => {
  const { fetches, begun } = fetchesOf({ ...ROW, cloned: false });
  await vi.waitFor(() => expect(begun).toHaveLength(1));
  fetches.startComparing(1_000_000);
  begun[0]?.(new Error('no'));
  await vi.advanceTimersByTimeAsync(1000);
  expect(fetches.errorOf(ROW.id)).not.toBeNull();
  expect(begun).toHaveLength(1);
  await fetches.close();
});

it('fetches what is cloned although slow clones go on', async () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'last'];
  const rows = ids.map((id) => Object.assign({}, ROW, { id, cloned: id === 'last' }));
  const begun: string[] = [];
  const pull = ({ id }: { readonly id: string }): Promise<boolean> => {
    begun.push(id);
    return id === 'last' ? Promise.resolve(false) : new Promise(() => {});
  };
  const fetches = new Fetches(
    () => rows,
    () => {},
    pull,
  );
  await fetches.fetch('last');
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'last']);
});
