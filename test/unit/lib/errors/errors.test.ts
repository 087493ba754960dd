import { describe, expect, it } from 'vitest';

import { diskError } from '../../../../src/lib/errors/disk-errors.ts';
import { EXIT_CODES, exitCodeOf, MirrorError, toMirrorError } from '../../../../src/lib/errors/errors.ts';

it.each([
  ['open', 'disk.unstorable'],
  ['write', 'disk.failed'],
])('an unusual name is to blame for EINVAL only if the call stores it: %s', (syscall, code) => {
  const error = Object.assign(new Error('EINVAL'), { code: 'EINVAL', syscall, path: '/m/a:b.xlsx' });
  expect(diskError(error, 'writing a file')).toMatchObject({ code });
});

it('a copy finds no room where it is written, and not where it is read', () => {
  const call = { code: 'ENOSPC', syscall: 'copyfile', path: '/etc/hostname', dest: '/proc/copy' };
  const error = Object.assign(new Error('ENOSPC'), call);
  expect(diskError(error, 'copying')).toMatchObject({
    code: 'disk.full',
    message: expect.stringContaining('the file system at /proc is full') as string,
  });
});

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
