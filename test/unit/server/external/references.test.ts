import { describe, expect, it } from 'vitest';

import { parseReferences } from '../../../../src/server/external/remote.ts';

const ID = { one: '1'.repeat(40), two: '2'.repeat(40) };

describe('the references of another repository', () => {
  it('are its branches, symbolic ones too, and tags, without the targets of tags', () => {
    const lines = [
      'ref: refs/heads/main\tHEAD',
      `${ID.one}\tHEAD`,
      `${ID.one}\trefs/heads/main`,
      'ref: refs/heads/main\trefs/heads/master',
      `${ID.one}\trefs/heads/master`,
      `${ID.two}\trefs/tags/v1`,
      `${ID.one}\trefs/tags/v1^{}`,
      `${ID.two}\trefs/pull/1/head`,
    ];
    const references = parseReferences(lines.join('\n'));
    expect(references.head).toBe('refs/heads/main');
    expect(references.lines).toEqual([
      `${ID.one}\trefs/heads/main`,
      `${ID.one}\trefs/heads/master`,
      `${ID.two}\trefs/tags/v1`,
    ]);
  });

  it('name a default branch only if it exists', () => {
    const headOf = (head: string) => parseReferences(`ref: ${head}\tHEAD\n${ID.one}\trefs/heads/main`).head;
    expect(headOf('refs/heads/main')).toBe('refs/heads/main');
    expect(headOf('refs/heads/gone')).toBeNull();
    expect(headOf('refs/heads/ain')).toBeNull();
    expect(parseReferences(`${ID.one}\trefs/heads/main`).head).toBeNull();
  });
});
