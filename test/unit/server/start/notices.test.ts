import { describe, expect, it } from 'vitest';

import { describeOpening, describeReading } from '../../../../src/server/start/notices.ts';
import type { RegisteredRepository } from '../../../../src/server/git/repository-index.ts';

const DROPPED: RegisteredRepository = {
  id: '1',
  name: 'A',
  full_name: 'A',
  url: null,
  created_at: '',
  source: null,
  cloned: true,
};
const CONNECTED = { ...DROPPED, full_name: 'h/p.git', source: 'https://h/p.git' };

describe('the log of a service', () => {
  it('says what is wrong in the directory, and what to do', () => {
    const error = new Error('ENOTDIR\nno directory');
    expect(describeOpening({ kind: 'unusable', repository: DROPPED, error })).toBe(
      'A cannot be used: ENOTDIR no directory. Put repositories/1.git right, or restore it from the backup, and start this again.',
    );
    expect(describeOpening({ kind: 'unusable', repository: CONNECTED, error })).toBe(
      'h/p.git cannot be used: ENOTDIR no directory. It is cloned again if it is gone.',
    );
    expect(describeOpening({ kind: 'unknown', path: '/s/repositories/1.git' })).toBe(
      '/s/repositories/1.git belongs to no repository in the list: it is kept, and not served.',
    );
  });

  it('says what cannot be read, and when it can be again', () => {
    const error = new Error('git for-each-ref ended with 128');
    expect(describeReading({ kind: 'unreadable', repository: CONNECTED, error })).toMatch(
      /^h\/p\.git: its workbooks cannot be read: git for-each-ref ended with 128\. They are listed as they were/,
    );
    expect(describeReading({ kind: 'readable', repository: CONNECTED })).toBe(
      'h/p.git: its workbooks can be read again.',
    );
  });
});
