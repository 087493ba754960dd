import { describe, expect, it } from 'vitest';

import { createLimit } from '../../../../src/server/git/limit.ts';
import { splitTokens } from '../../../../src/server/git/tokens.ts';

describe('tokens', () => {
  it('are the same however the output is cut', () => {
    const bytes = Buffer.from('ä\0\0Übersicht Köln\0last\0unfinished');
    for (let size = 1; size <= bytes.length; size += 1) {
      const tokens: string[] = [];
      const split = splitTokens((token) => tokens.push(token));
      for (let from = 0; from < bytes.length; from += size) split(bytes.subarray(from, from + size));
      expect(tokens).toEqual(['ä', '', 'Übersicht Köln', 'last']);
    }
  });

  it('are cut between characters where they are too long, however the output is cut, and say so', () => {
    const bytes = Buffer.from('äää\0abcde\0abcdef\0ab€€\0a😀\0abcd😀\0\0');
    for (let size = 1; size <= bytes.length; size += 1) {
      const tokens: Array<[string, boolean]> = [];
      const split = splitTokens((token, isCut) => tokens.push([token, isCut]), 5);
      for (let from = 0; from < bytes.length; from += size) split(bytes.subarray(from, from + size));
      expect(tokens).toEqual([
        ['ää', true],
        ['abcde', false],
        ['abcde', true],
        ['ab€', true],
        ['a😀', false],
        ['abcd', true],
        ['', false],
      ]);
    }
  });
});

describe('a limit', () => {
  it('lets so many in at once, and the others in their order, also after a failure', async () => {
    const limit = createLimit(2);
    const order: number[] = [];
    let inside = 0;
    let most = 0;
    const work = [0, 1, 2, 3, 4].map((number) =>
      limit(async () => {
        inside += 1;
        most = Math.max(most, inside);
        order.push(number);
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        inside -= 1;
        if (number === 1) throw new Error('failed');
        return number;
      }).catch(() => -1),
    );
    expect(await Promise.all(work)).toEqual([0, -1, 2, 3, 4]);
    expect(order).toEqual([0, 1, 2, 3, 4]);
    expect(most).toBe(2);
  });
});
