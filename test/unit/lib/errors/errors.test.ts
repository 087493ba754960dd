import { describe, expect, it } from 'vitest';

import { EXIT_CODES, exitCodeOf, MirrorError, toMirrorError } from '../../../../src/lib/errors/errors.ts';

describe('errors', () => {
  it('of the program stay as they are', () => {
    const error = new MirrorError('disk.full', 'full');
    expect(toMirrorError(error)).toBe(error);
  });

  it.each([new TypeError('x is not a function'), 'text', 7, null, undefined, { message: 'no error' }])(
    'of other origin are defects: %s',
    (thrown) => {
      const error = toMirrorError(thrown);
      expect(error).toMatchObject({ code: 'internal.defect', action: 'exit' });
      expect(error.hint).toMatch(/report it/);
      expect(exitCodeOf(thrown)).toBe(EXIT_CODES.defect);
    },
  );

  it('of other origin keep their message and become the cause', () => {
    const thrown = new RangeError('out of range');
    expect(toMirrorError(thrown)).toMatchObject({ message: 'out of range', cause: thrown });
  });
});
