import { describe, expect, it } from 'vitest';

import { chooseDefaultBranch } from '../../../../src/server/git/refs.ts';

describe('the default branch', () => {
  const choose = (defaultBranch: string | null, ...names: string[]): string | null =>
    chooseDefaultBranch({ defaultBranch, heads: new Map(names.map((name) => [name, 'id'])) });

  it('does not change if it exists, or if there are no branches', () => {
    expect(choose('main')).toBeNull();
    expect(choose('x', 'main', 'x')).toBeNull();
  });

  it('is otherwise the usual one, or the first', () => {
    expect(choose('main', 'z', 'a')).toBe('a');
    expect(choose(null, 'a', 'master')).toBe('master');
    expect(choose('x', 'a', 'master', 'main')).toBe('main');
  });
});
