import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { Journal } from './journal.ts';

const HELD = { isReached: true, violations: [] };
const VIOLATED = { isReached: true, violations: ['a tree is torn'] };

describe('the journal of the sweeps', () => {
  let folder = '';
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-journal-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  it('knows what another process tried, once it looks again', () => {
    const [one, other] = [new Journal(folder, 'e'), new Journal(folder, 'e')];
    one.record('kills/first/auto/1', HELD);
    expect(other.result('kills/first/auto/1')).toBeUndefined();
    other.refresh();
    expect(other.result('kills/first/auto/1')).toMatchObject(HELD);
  });

  it('gives points to one at a time, and takes them from one that is no more', () => {
    const journal = new Journal(folder, 'e');
    expect(journal.claim('kills/first/auto/')).toBe(true);
    expect(new Journal(folder, 'e').claim('kills/first/auto/')).toBe(false);
    journal.release('kills/first/auto/');
    writeFileSync(join(folder, 'claims/kills.first.auto.'), '999999999');
    expect(new Journal(folder, 'e').claim('kills/first/auto/')).toBe(true);
  });

  it('adds up the points of a list, and lists none that were found in other scenarios', () => {
    const journal = new Journal(folder, 'e');
    expect(journal.figures('kills/first/auto/')).toBeNull();
    journal.keepNames('kills/first/auto/', ['1', '2', '3']);
    journal.record('kills/first/auto/1', VIOLATED);
    journal.record('kills/first/auto/1', HELD);
    journal.record('kills/first/auto/2', { ...VIOLATED, isReached: false });
    const figures = new Journal(folder, 'e').figures('kills/first/auto/');
    expect(figures).toMatchObject({ exist: 3, tried: 2, reached: 1 });
    expect(figures?.violated.map(({ id }) => id)).toEqual(['kills/first/auto/2']);
    expect(new Journal(folder, 'another').figures('kills/first/auto/')).toBeNull();
  });
});
