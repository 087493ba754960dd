import { describe, expect, it } from 'vitest';

import { SharedFlush } from '../../../../src/lib/disk/shared-flush.ts';

/** A file system whose flushes a test ends. */
function fileSystem(): { flush: SharedFlush; rounds: PromiseWithResolvers<void>[] } {
  const rounds: PromiseWithResolvers<void>[] = [];
  const flush = new SharedFlush(() => {
    const round = Promise.withResolvers<void>();
    rounds.push(round);
    return round.promise;
  });
  return { flush, rounds };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

const LOST = Object.assign(new Error('EIO: syncfs failed'), { code: 'EIO' });

describe('a shared flush', () => {
  it('succeeds for the callers before it, and fails for all its own', async () => {
    const { flush, rounds } = fileSystem();
    const mark = flush.mark();
    const first = flush.since(mark);
    const sharers = [flush.since(mark), flush.since(mark)];
    rounds[0]?.resolve();
    await first;
    await settled();
    rounds[1]?.reject(LOST);
    const failed = { status: 'rejected', reason: LOST };
    expect(await Promise.allSettled(sharers)).toEqual([failed, failed]);
    expect(rounds).toHaveLength(2);
  });

  it('fails even for a caller that began to write before a failure reported to another', async () => {
    const { flush, rounds } = fileSystem();
    const writesAlready = flush.mark();
    const other = flush.since(flush.mark());
    rounds[0]?.reject(LOST);
    await expect(other).rejects.toBe(LOST);
    const late = flush.since(writesAlready);
    await settled();
    rounds[1]?.resolve();
    await expect(late).rejects.toBe(LOST);
  });

  it('fails for a caller waiting during a failure, but not for one that begins to write after it', async () => {
    const { flush, rounds } = fileSystem();
    const mark = flush.mark();
    const first = flush.since(mark);
    const next = flush.since(mark);
    rounds[0]?.reject(LOST);
    await expect(first).rejects.toBe(LOST);
    await settled();
    const anew = flush.since(flush.mark());
    rounds[1]?.resolve();
    await expect(next).rejects.toBe(LOST);
    await settled();
    rounds[2]?.resolve();
    await expect(anew).resolves.toBeUndefined();
  });
});
