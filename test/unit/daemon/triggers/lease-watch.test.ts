import { beforeEach, expect, it, vi } from 'vitest';

import { watchLeases } from '../../../../src/daemon/triggers/lease-watch.ts';
import { leasesInForce, type Lease } from '../../../../src/mirror/store/leases.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';

vi.mock(import('../../../../src/mirror/store/leases.ts'));
const LAYOUT = layoutOf('/nowhere');

const WAITED = { name: 'lease.waited', untilMs: 1, holder: 'x' } as const;

beforeEach(() => void vi.useFakeTimers());

it('a delayed publish happens once, when no lease is left', async () => {
  let held: Lease[] = [{ id: 'x', holder: 'x', takenAtMs: 0, untilMs: 1 }];
  vi.mocked(leasesInForce).mockImplementation(() => Promise.resolve(held));
  const onOver = vi.fn();
  const watch = watchLeases(LAYOUT, onOver);
  watch.sink(WAITED);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(onOver).not.toHaveBeenCalled();
  held = [];
  await vi.advanceTimersByTimeAsync(10_000);
  expect(onOver).toHaveBeenCalledTimes(1);
  watch.close();
});
