import { describe, expect, it } from 'vitest';

import * as planSettings from '../../../src/config/plan-settings.ts';
import { MirrorError } from '../../../src/lib/errors/errors.ts';
import type { DeletionLimit } from '../../../src/mirror/plan/guard.ts';
import type { Retention } from '../../../src/mirror/store/disk.ts';
import { HOUR_MS } from '../../support/builders.ts';

const { formatRetention, formatShard, deletionLimit, retention, parseShard } = planSettings;
const OFF: DeletionLimit = { kind: 'off' };

describe('a limit of deletions', () => {
  it.each<[string, DeletionLimit]>([
    ['20%', { kind: 'share', percent: 20 }],
    [' 12.5 % ', { kind: 'share', percent: 12.5 }],
    ['0', { kind: 'count', count: 0 }],
    ['100', { kind: 'count', count: 100 }],
    ['off', OFF],
  ])('is read from %j, and reads back what it writes', (text, limit) => {
    expect(deletionLimit.parse(text, '')).toEqual(limit);
    expect(deletionLimit.parse(String(deletionLimit.spell?.(limit)), '')).toEqual(limit);
  });

  it.each(['', '%', '-1', '101%', '20 percent', '1e3', '0x10', 'Off'])('refuses %j', (text) => {
    expect(() => deletionLimit.parse(text, '')).toThrow(MirrorError);
  });
});

describe('a retention', () => {
  it.each<[string, Retention]>([
    ['off', { kind: 'off' }],
    ['0', { kind: 'off' }],
    ['forever', { kind: 'forever' }],
    ['10', { kind: 'count', count: 10 }],
    ['30d', { kind: 'age', ageMs: 720 * HOUR_MS }],
  ])('is read from %j, and reads back what it writes', (text, value) => {
    expect(retention.parse(text, '')).toEqual(value);
    expect(retention.parse(formatRetention(value), '')).toEqual(value);
  });

  it.each(['', 'always', '-1', '3x', '1.5'])('refuses %j', (text) => {
    expect(() => retention.parse(text, '')).toThrow(MirrorError);
  });
});

describe('parseShard', () => {
  it('reads an index and a count, and writes them back', () => {
    for (const text of ['1/1', '2/5', '5/5', '1024/1024'])
      expect(formatShard(parseShard(text, 'mirror', undefined))).toBe(text);
  });

  it.each([
    ['mirror-0', undefined, 1],
    ['mirror-4', undefined, 5],
    ['a-3-b-2', undefined, 3],
    ['mirror', '3', 4],
    ['mirror-1', '3', 4],
    ['mirror-1', '', 2],
  ])('takes the index from the host name %s and the completion index %s', (hostName, given, index) => {
    expect(parseShard('auto/5', hostName, given)).toEqual({ index, count: 5 });
  });

  it.each([
    ['0/5', 'expected an index from 1 to 5'],
    ['6/5', 'expected an index from 1 to 5'],
    ['1/0', 'a count from 1 to 1024'],
    ['1/1025', 'a count from 1 to 1024'],
    ['2', 'expected INDEX/COUNT'],
    ['2/5/7', 'expected INDEX/COUNT'],
    ['1.5/5', 'expected INDEX/COUNT'],
    ['Auto/5', 'expected INDEX/COUNT'],
    ['auto/5', 'they are "" and "mirror"'],
  ])('refuses %s', (text, message) => {
    expect(() => parseShard(text, 'mirror', undefined)).toThrow(message);
  });

  it.each([
    ['mirror-5', undefined, 'they are "" and "mirror-5"'],
    ['mirror-1', 'x', 'a number from 0 to 4 in the variable JOB_COMPLETION_INDEX'],
    ['mirror', '5', 'they are "5" and "mirror"'],
  ])('refuses auto/5 on the host %s with the completion index %s', (hostName, completionIndex, message) => {
    expect(() => parseShard('auto/5', hostName, completionIndex)).toThrow(message);
  });
});
