import { describe, expect, it } from 'vitest';
import { driftSentence, heldSentence } from '../../../../src/app/messages.ts';
import { stateText, TARGET_STATES, type TargetStatus } from '../../../../src/app/target-status.ts';
import {
  arrange,
  COLUMNS,
  countStates,
  driftClause,
  FIRST_CHOICE,
  fromQuery,
  heldClause,
  toQuery,
  troubleOf,
  wordOf,
} from '../../../../src/daemon/page/targets.js';
import { HOUR_MS, NOW_MS } from '../../../support/builders.ts';
import { failingTarget, heldTarget, manyTargets, targetStatus } from '../../../support/report.ts';
import { randomOf, shuffled } from '../../../support/sweep.ts';

function names(targets: readonly TargetStatus[]): string[] {
  return targets.map(({ repository }) => repository);
}

const NEVER = { state: 'pending', verifiedAtMs: null, changedAtMs: null } as const;
const TARGETS = [
  targetStatus({ repository: 'b10', files: 5, sizeBytes: 100, verifiedAtMs: NOW_MS - 10 }),
  targetStatus({ repository: 'b9', files: 7, sizeBytes: 50, ...NEVER }),
  failingTarget({ repository: 'a', files: 1, sizeBytes: 900, verifiedAtMs: NOW_MS - HOUR_MS }),
  heldTarget({ repository: 'Zoo', files: 6, sizeBytes: 10, verifiedAtMs: NOW_MS - 5 }),
];

describe('the order of targets', () => {
  it('begins with the worst state', () => {
    expect(names(arrange(TARGETS, FIRST_CHOICE))).toEqual(['a', 'Zoo', 'b9', 'b10']);
  });

  it.each([
    ['target', ['a', 'b9', 'b10', 'Zoo']],
    ['verified', ['b9', 'a', 'b10', 'Zoo']],
    ['files', ['a', 'b10', 'Zoo', 'b9']],
    ['size', ['Zoo', 'b9', 'b10', 'a']],
  ] as const)('can be by %s, in both directions', (column, up) => {
    expect(names(arrange(TARGETS, { ...FIRST_CHOICE, column, isDescending: false }))).toEqual(up);
    const down = names(arrange(TARGETS, { ...FIRST_CHOICE, column, isDescending: true }));
    expect(down).toEqual(up.toReversed());
  });

  it('puts targets that never changed last, in both directions', () => {
    for (const isDescending of [false, true])
      expect(names(arrange(TARGETS, { ...FIRST_CHOICE, column: 'changed', isDescending })).at(-1)).toBe('b9');
  });

  it('is total for every column: it does not depend on the earlier order', () => {
    const many = manyTargets(400);
    const turned = shuffled(many, randomOf(1));
    for (const { name: column } of COLUMNS)
      for (const isDescending of [false, true]) {
        const choice = { ...FIRST_CHOICE, column, isDescending };
        expect(arrange(turned, choice)).toEqual(arrange(many, choice));
      }
  });

  it('can be written into an address and read back', () => {
    expect(toQuery(FIRST_CHOICE)).toBe('');
    const choice = { search: 'a b', state: 'held', column: 'size', isDescending: true, page: 3 } as const;
    expect(fromQuery(toQuery(choice))).toEqual(choice);
    expect(fromQuery('?state=toString&sort=odd&page=-7')).toEqual(FIRST_CHOICE);
  });
});

describe('the choice of targets', () => {
  it.each([
    ['BROKE off', 1],
    ['main', 4],
    ['contents.interrupted', 1],
    ['held', 1],
    ['B9 main', 1],
    ['  ', 4],
    ['(', 0],
    ['main nothing', 0],
  ])('by %j finds %d', (search, count) => {
    expect(arrange(TARGETS, { ...FIRST_CHOICE, search })).toHaveLength(count);
  });

  it('can be by state as well', () => {
    expect(names(arrange(TARGETS, { ...FIRST_CHOICE, search: '', state: 'held' }))).toEqual(['Zoo']);
    expect(arrange(TARGETS, { ...FIRST_CHOICE, search: 'a', state: 'absent' })).toEqual([]);
  });

  it('treats all forms of a letter alike', () => {
    const targets = [targetStatus({ repository: 'Cafe\u0301' })];
    expect(arrange(targets, { ...FIRST_CHOICE, search: 'CAFÉ', state: null })).toHaveLength(1);
  });

  it('counts the states, the worst first', () => {
    expect(countStates(TARGETS)).toEqual([
      { state: 'failing', count: 1 },
      { state: 'held', count: 1 },
      { state: 'pending', count: 1 },
      { state: 'fresh', count: 1 },
    ]);
  });
});

describe('the problem of a target', () => {
  it.each([
    ['none', targetStatus(), null],
    ['failure', failingTarget(), 'contents.interrupted: The contents of the branch broke off after 12.3 MB.'],
    ['a held deletion', heldTarget(), 'held: the service’s new state would delete 31 of its 42 files'],
    ['a tree that is gone', targetStatus({ state: 'damaged' }), 'its tree or manifest is gone or unreadable'],
    ['staleness', targetStatus({ state: 'stale' }), 'not verified in time'],
    ['a target that is missing', targetStatus({ state: 'missing' }), 'missing from the service'],
    ['a restored tree', targetStatus({ restoredAtMs: NOW_MS }), 'restored from the history'],
  ])('names %s', (_, target, text) => expect(troubleOf(target)).toBe(text));

  it('describes holds and drift as the command line does', () => {
    const noDeletion = { digest: null, sinceMs: 0, nextLookAtMs: 0, fingerprint: null, first: [] };
    for (const subject of ['target', 'restored', 'files'] as const) {
      const held = { ...noDeletion, subject, deletions: 3, of: 9 };
      expect(heldClause(held).replaceAll('’', "'")).toBe(heldSentence(held));
    }
    const drift = { added: 1, missing: 2, modified: 3, first: 'a "b"\n', sinceMs: 0 };
    expect(driftClause(drift)).toBe(driftSentence(drift));
  });
});

it.each(TARGET_STATES)('the page describes a target that is %s as the commands do', (state) => {
  expect(wordOf(state)).toBe(stateText(state));
});
