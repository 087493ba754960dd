import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { readWhole, writeWhole } from './whole.ts';

describe('the list of scenarios that were tried whole', () => {
  let folder = '';
  const file = (): string => join(folder, 'whole.json');
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-whole-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is empty before anything was tried, and of another build', () => {
    expect(readWhole(file(), 'one').size).toBe(0);
    writeWhole(file(), 'one', new Map([['kills/first/auto/', { points: 3, reached: 2 }]]));
    expect(readWhole(file(), 'other').size).toBe(0);
  });

  it('gives back what was written', () => {
    const scenarios = new Map([
      ['kills/mixed/auto/', { points: 4, reached: 4 }],
      ['kills/first/auto/', { points: 3, reached: 2 }],
    ]);
    writeWhole(file(), 'one', scenarios);
    expect(readWhole(file(), 'one')).toEqual(scenarios);
  });

  it('is refused where it is something else', () => {
    writeFileSync(
      file(),
      '{"build": "one", "scenarios": {"kills/first/auto/": {"points": 0, "reached": 0}}}',
    );
    expect(() => readWhole(file(), 'one')).toThrow(/points/);
  });
});
