import { describe, expect, it } from 'vitest';
import { dueForTree, dueHooks, knownChanges } from '../../../../src/daemon/hooks/due-hooks.ts';
import { hookTree, type TreeNews } from '../../../../src/app/command-hooks.ts';
import type { HookTree } from '../../../../src/mirror/state/state.ts';
import type { Published } from '../../../../src/mirror/plan/record.ts';
import { published, repository } from '../../../support/builders.ts';

/** A published tree at a path, and what the command receives about it. */
function tree(path: string, id = path, fields: Partial<Published> = {}): Published {
  const of = repository({ id, fullName: path.replace(/\/[^/]*$/, '') });
  return published(of, { path, publishedAtMs: 1, ...fields });
}

function delivered(...trees: readonly Published[]): Map<string, HookTree> {
  return new Map(trees.map((each) => [each.path, hookTree(each)]));
}

/** The runs due if this instance mirrors everything, and all is readable. */
function dueAmong(trees: readonly Published[], known: ReadonlyMap<string, HookTree>): TreeNews[] {
  return dueHooks({ published: trees, others: [], unreadable: [] }, known);
}

describe('the list of due runs', () => {
  it('has every tree that the command has not received in its present state', () => {
    const same = tree('A/main');
    const newer = tree('B/main', 'B/main', { publishedAtMs: 2 });
    const fresh = tree('C/main');
    const known = delivered(same, tree('B/main'));
    expect(dueAmong([same, newer, fresh], known)).toMatchObject([
      { event: 'published', target: 'B/main', before: { publishedAtMs: 1 } },
      { event: 'published', target: 'C/main', before: null },
    ]);
  });

  it('omits a tree that was removed by hand, that another instance mirrors, or whose manifest is unreadable', () => {
    expect(dueAmong([tree('A/main', 'a', { treePresent: false })], new Map())).toEqual([]);
    const before = delivered(tree('A/main'));
    expect(dueHooks({ published: [], others: [], unreadable: ['A/main'] }, before)).toEqual([]);
    expect(dueHooks({ published: [], others: [{ path: 'A/main' }], unreadable: [] }, before)).toEqual([]);
  });

  it('has moved trees, and last the trees that left the mirror', () => {
    const known = delivered(tree('Gone/main'), tree('Old/main', 'id'));
    expect(dueAmong([tree('New/main', 'id'), tree('X/main')], known)).toMatchObject([
      { event: 'moved', target: 'New/main', movedFrom: 'Old/main' },
      { event: 'published', target: 'X/main' },
      { event: 'retired', target: 'Gone/main' },
    ]);
  });

  it('distinguishes a second tree of a target from a moved one', () => {
    const known = delivered(tree('Old/main', 'id'));
    expect(dueAmong([tree('Old/main', 'id'), tree('New/main', 'id')], known)).toMatchObject([
      { event: 'published', target: 'New/main' },
    ]);
  });

  it('treats another repository at the same path as a new tree', () => {
    const known = delivered(tree('A/main', 'first'));
    const due = dueForTree('A/main', hookTree(tree('A/main', 'second')), known);
    expect(due).toMatchObject({ event: 'published', before: null });
  });
});

describe('the list of changed files', () => {
  const before = hookTree(tree('A/main'));
  const now = { ...before, publishedAtMs: 3 };
  const span = { since: 1, until: 3, changes: [{ change: 'added', path: 'a' }] } as const;

  it('is known only if it leads from the last reported state to the published one', () => {
    const due = { event: 'published', before, tree: now } as const;
    expect(knownChanges(due, before, span)).toEqual(span.changes);
    expect(knownChanges(due, before, undefined)).toBeNull();
    expect(knownChanges(due, before, { ...span, since: 2 })).toBeNull();
    expect(knownChanges(due, before, { ...span, until: 2 })).toBeNull();
    expect(knownChanges({ ...due, before: null }, undefined, { ...span, since: null })).toEqual(span.changes);
  });

  it('is empty for a tree that only moved, and unknown for one that left', () => {
    expect(knownChanges({ event: 'moved', before, tree: before }, undefined, undefined)).toEqual([]);
    expect(knownChanges({ event: 'retired', before, tree: before }, before, undefined)).toBeNull();
  });

  it('is unknown after a run for the tree of another repository', () => {
    const due = { event: 'published', before: null, tree: now } as const;
    expect(knownChanges(due, { ...before, repositoryId: 'other' }, { ...span, since: null })).toBeNull();
  });
});
