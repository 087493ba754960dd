import { describe, expect, it } from 'vitest';

import { MirrorError } from '../../src/model/errors.ts';
import { formatRetention, parseRetention, type Retention } from '../../src/model/retention.ts';
import { HOUR_MS } from '../support/builders.ts';

describe('a retention', () => {
  it.each<[string, Retention]>([
    ['off', { kind: 'off' }],
    ['0', { kind: 'off' }],
    ['forever', { kind: 'forever' }],
    ['10', { kind: 'count', count: 10 }],
    ['30d', { kind: 'age', ageMs: 720 * HOUR_MS }],
  ])('is read from %j, and written so that it is read back', (text, retention) => {
    expect(parseRetention(text)).toEqual(retention);
    expect(parseRetention(formatRetention(retention))).toEqual(retention);
  });

  it.each(['', 'always', '-1', '3x', '1.5'])('is not read from %j', (text) => {
    expect(() => parseRetention(text)).toThrow(MirrorError);
  });
});
