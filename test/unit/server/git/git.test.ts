import { describe, expect, it } from 'vitest';

import { splitTokens } from '../../../../src/server/git/git.ts';

describe('tokens', () => {
  it('are the same for any cuts of the output', () => {
    const bytes = Buffer.from('ä\0\0Übersicht Köln\0last\0unfinished');
    for (let size = 1; size <= bytes.length; size += 1) {
      const tokens: string[] = [];
      const split = splitTokens((token) => tokens.push(token));
      for (let from = 0; from < bytes.length; from += size) split(bytes.subarray(from, from + size));
      expect(tokens).toEqual(['ä', '', 'Übersicht Köln', 'last']);
    }
  });

  it('are split between characters if they are too long, for any cuts of the output', () => {
    const bytes = Buffer.from('ääa\0abcde\0abcdef\0ab€€\0a😀\0abcd😀\0\0');
    for (let size = 1; size <= bytes.length; size += 1) {
      const tokens: string[] = [];
      const split = splitTokens((token) => tokens.push(token), 5);
      for (let from = 0; from < bytes.length; from += size) split(bytes.subarray(from, from + size));
      expect(tokens).toEqual(['ääa', 'abcde', 'abcde', 'ab€', 'a😀', 'abcd', '']);
    }
  });
});
