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
    const [one, other] = [new Journal(folder, 'e', new Map()), new Journal(folder, 'e', new Map())];
    one.record('kills/first/auto/1', HELD);
    expect(other.result('kills/first/auto/1')).toBeUndefined();
    other.refresh();
    expect(other.result('kills/first/auto/1')).toMatchObject(HELD);
  });

  it('gives points to one at a time, and takes them from one that is no more', () => {
    const journal = new Journal(folder, 'e', new Map());
    expect(journal.claim('kills/first/auto/')).toBe(true);
    expect(new Journal(folder, 'e', new Map()).claim('kills/first/auto/')).toBe(false);
    journal.release('kills/first/auto/');
    writeFileSync(join(folder, 'claims/kills.first.auto.'), '999999999');
    expect(new Journal(folder, 'e', new Map()).claim('kills/first/auto/')).toBe(true);
  });

  it('adds up the points of a list, and lists none that were found in other scenarios', () => {
    const journal = new Journal(folder, 'e', new Map());
    expect(journal.figures('kills/first/auto/')).toBeNull();
    journal.keepNames('kills/first/auto/', ['1', '2', '3']);
    journal.record('kills/first/auto/1', VIOLATED);
    journal.record('kills/first/auto/1', HELD);
    journal.record('kills/first/auto/2', { ...VIOLATED, isReached: false });
    const figures = new Journal(folder, 'e', new Map()).figures('kills/first/auto/');
    expect(figures).toMatchObject({ exist: 3, tried: 2, reached: 1 });
    expect(figures?.violated.map(({ id }) => id)).toEqual(['kills/first/auto/2']);
    expect(new Journal(folder, 'another', new Map()).figures('kills/first/auto/')).toBeNull();
  });

  it('counts nothing that other attacks found', () => {
    new Journal(folder, 'e', new Map()).record('kills/first/auto/1', HELD);
    const another = new Journal(folder, 'another', new Map());
    expect(another.result('kills/first/auto/1')).toBeUndefined();
    another.keepNames('kills/first/auto/', ['1']);
    expect(another.figures('kills/first/auto/')).toMatchObject({ exist: 1, tried: 0 });
  });

  it('names the scenarios that were tried whole, here or elsewhere', () => {
    const elsewhere = new Map([['kills/move/auto/', { points: 9, reached: 8 }]]);
    const journal = new Journal(folder, 'e', elsewhere);
    const begins = ['first', 'mixed', 'keep', 'move', 'retire'].map((name) => `kills/${name}/auto/`);
    for (const begin of begins.slice(0, 3)) {
      journal.keepNames(begin, ['1', '2']);
      journal.record(`${begin}1`, HELD);
    }
    journal.record('kills/first/auto/2', { ...HELD, isReached: false });
    journal.record('kills/mixed/auto/2', VIOLATED);
    expect(journal.whole(begins)).toEqual(
      new Map([...elsewhere, ['kills/first/auto/', { points: 2, reached: 1 }]]),
    );
    expect(journal.isWhole('kills/move/auto/')).toBe(true);
    expect(journal.figures('kills/move/auto/')).toMatchObject({ exist: 9, tried: 9, reached: 8 });
  });
});
