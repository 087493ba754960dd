import { describe, expect, it } from 'vitest';

import {
  ERROR_RULES,
  EXIT_CODES,
  exitCodeOf,
  MirrorError,
  toMirrorError,
} from '../../../../src/lib/errors/errors.ts';

const CODES = Object.keys(ERROR_RULES) as (keyof typeof ERROR_RULES)[];

describe('errors', () => {
  it.each(CODES)('%s has a rule for its consequence and its exit code', (code) => {
    const error = new MirrorError(code, 'what happened');
    expect(['retry', 'hold', 'quarantine', 'stall', 'exit']).toContain(error.action);
    expect(Object.values(EXIT_CODES)).toContain(exitCodeOf(error));
    expect(exitCodeOf(error)).not.toBe(EXIT_CODES.ok);
  });

  it.each([
    ['usage.invalid', 2],
    ['settings.invalid', 2],
    ['credentials.refused', 3],
    ['service.unreachable', 3],
    ['listing.inconsistent', 3],
    ['contents.not_found', 1],
    ['archive.refused', 1],
    ['directory.locked', 4],
    ['internal.defect', 70],
  ] as const)('%s ends a command with %i', (code, exitCode) => {
    expect(exitCodeOf(new MirrorError(code, ''))).toBe(exitCode);
  });

  it('carry message, hint, cause and requested wait', () => {
    const cause = new Error('inner');
    const error = new MirrorError('service.busy', 'what happened', {
      hint: 'do this',
      cause,
      retryAfterMs: 5,
    });
    expect(error).toMatchObject({
      name: 'MirrorError',
      message: 'what happened',
      hint: 'do this',
      retryAfterMs: 5,
    });
    expect(error.cause).toBe(cause);
    expect('cause' in new MirrorError('service.busy', 'what happened')).toBe(false);
  });

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
