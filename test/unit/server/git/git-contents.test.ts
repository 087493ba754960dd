import { describe, expect, it } from 'vitest';

import { createReaders } from '../../../../src/server/git/git-contents.ts';
import type { Bytes } from '../../../../src/server/http/library.ts';

const FOREVER = new AbortController().signal;

/** Bytes that come when they are let go. */
function gate(): { readonly open: () => Bytes; readonly release: () => void; opened: number } {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const self = {
    opened: 0,
    release,
    async *open(): Bytes {
      self.opened += 1;
      yield Buffer.from('a');
      await released;
      yield Buffer.from('b');
    },
  };
  return self;
}

async function read(bytes: Bytes): Promise<string> {
  let text = '';
  for await (const chunk of bytes) text += Buffer.from(chunk).toString();
  return text;
}

describe('those who read', () => {
  it('take turns, and are refused when too many wait', async () => {
    const readers = createReaders(1, 1);
    const [first, second] = [gate(), gate()];
    const one = read(readers(FOREVER, first.open));
    const two = read(readers(FOREVER, second.open));
    await expect(read(readers(FOREVER, gate().open))).rejects.toMatchObject({ status: 503, code: 'busy' });
    expect([first.opened, second.opened]).toEqual([1, 0]);
    first.release();
    second.release();
    expect([await one, await two]).toEqual(['ab', 'ab']);
    expect(second.opened).toBe(1);
  });

  it('leave their place when they fail, are given up, or go while they wait', async () => {
    const readers = createReaders(1, 5);
    const broken = (): Bytes => {
      throw new Error('no program');
    };
    await expect(read(readers(FOREVER, broken))).rejects.toThrow('no program');

    const chunks = readers(FOREVER, gate().open)[Symbol.asyncIterator]();
    await chunks.next();
    const gone = new AbortController();
    const waiting = read(readers(gone.signal, gate().open));
    gone.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await chunks.return?.();

    const last = gate();
    last.release();
    expect(await read(readers(FOREVER, last.open))).toBe('ab');
    await expect(read(readers(gone.signal, last.open))).rejects.toThrow();
    expect(last.opened).toBe(1);
  });
});
