import { beforeEach, describe, expect, it, vi } from 'vitest';

import { createMemoryRelease } from '../../../src/daemon/memory.ts';

const MB = 1024 * 1024;

describe('createMemoryRelease', () => {
  beforeEach(() => void vi.useFakeTimers());

  /** Makes garbage that survives the collection of young objects. @returns the heap while it was in use, in bytes */
  function litter(): number {
    const rows = Array.from({ length: 1_000_000 }, (_, index) => ({ index, name: `workbook ${index}` }));
    expect(rows).toHaveLength(1_000_000);
    return process.memoryUsage().heapTotal;
  }

  it('frees garbage once no work is going on', () => {
    const memory = createMemoryRelease(() => false);
    const before = litter();
    memory.atRest();
    expect(process.memoryUsage().heapTotal).toBeGreaterThan(before - 32 * MB);
    vi.advanceTimersByTime(20_000);
    expect(process.memoryUsage().heapTotal).toBeLessThan(before - 32 * MB);
  });

  it('frees it when work ends again and again', () => {
    const isWorking = vi.fn(() => false);
    const memory = createMemoryRelease(isWorking);
    for (let seconds = 0; seconds < 50; seconds += 5) {
      memory.atRest();
      vi.advanceTimersByTime(5_000);
    }
    expect(isWorking).toHaveBeenCalledTimes(2);
    memory.close();
  });

  it('frees nothing during work, nor after it is closed', () => {
    let isWorking = true;
    const memory = createMemoryRelease(() => isWorking);
    const used = vi.spyOn(process, 'memoryUsage');
    memory.atRest();
    vi.advanceTimersByTime(20_000);
    isWorking = false;
    memory.atRest();
    memory.close();
    vi.advanceTimersByTime(20_000);
    expect(used).not.toHaveBeenCalled();
  });
});
