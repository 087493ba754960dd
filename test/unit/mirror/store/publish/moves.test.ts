import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import {
  choosePublishMethod,
  guardedMoves,
  type Move,
  moveRenames,
  publishRenames,
  type PublishSituation,
  type Rename,
  retireRenames,
} from '../../../../../src/mirror/store/publish/moves.ts';
import { changes, manifestFile } from '../../../../support/builders.ts';

const TARGET = 'Sales/main';
const HISTORY = `history/${TARGET}/TIME`;

/** The inode at each path. */
type Disk = ReadonlyMap<string, number>;

/** Makes moves as the program does: a move without its source was made already. */
function make(disk: Disk, moves: readonly Move[]): Disk {
  const next = new Map(disk);
  for (const { from, to, inode, swaps } of moves) {
    if (next.get(from) !== inode) continue;
    const there = next.get(to);
    if (swaps === true && there !== undefined) next.set(from, there);
    else next.delete(from);
    next.set(to, inode);
  }
  return next;
}

const isAnyMade = (disk: Disk, moves: readonly Move[]): boolean =>
  moves.some(({ to, inode }) => disk.get(to) === inode);

/** A change with the state before it. */
function changeOf(renames: readonly Rename[], present: readonly string[]): { disk: Disk; moves: Move[] } {
  const disk = new Map([...new Set(present)].map((path, at) => [path, at + 1]));
  return { disk, moves: guardedMoves(renames, (path) => disk.get(path) ?? null) };
}

const MANIFEST = `manifests/${TARGET}.json`;
const TREE = `mirror/${TARGET}`;
const facts = { hasTree: fc.boolean(), hasManifest: fc.boolean(), isLink: fc.boolean() };
const names = fc.uniqueArray(fc.constantFrom('a', 'b', 'c/d', 'e'), { maxLength: 3 });

const publishes = fc
  .record({
    hasManifest: fc.boolean(),
    method: fc.constantFrom('manifest', 'first', 'in-place', 'exchange', 'link', 'rename'),
    place: fc.constantFrom('gone', 'folder', 'link', 'dangling', 'other'),
    canExchange: fc.boolean(),
    files: names,
    removed: names,
    keeps: fc.constantFrom('nothing', 'links', 'all'),
  })
  .map(({ method, place, canExchange, files, removed, hasManifest, keeps }) => {
    const isByFile = method === 'in-place' || method === 'rename';
    const isLink = place === 'link' || place === 'dangling';
    const isStaged = keeps === 'links' || isByFile || method === 'manifest' || place === 'gone' || isLink;
    const keeping = keeps === 'nothing' ? null : { place: HISTORY, isStaged, hasManifest };
    const found = changes({ added: files, removed });
    const own = { target: TARGET, mode: 'auto', isOwn: true, isDamaged: false } as const;
    const situation = { ...own, canExchange, place, changes: found, foreign: [], files: [], keeping };
    const staged = isByFile ? files.map((path) => `stage/tree/${path}`) : ['stage/tree', 'stage/link'];
    const kept = keeping === null ? [] : ['stage/kept.json', ...(isStaged ? ['stage/kept'] : [])];
    const published = isByFile ? removed.map((path) => `${TREE}/${path}`) : [TREE];
    const present = [...(place === 'gone' ? [] : published), ...(hasManifest ? [MANIFEST] : [])];
    const renames = publishRenames(method, situation);
    return changeOf(renames, ['stage/manifest.json', ...staged, ...kept, ...present]);
  });

const leavings = fc
  .record({ ...facts, isMoved: fc.boolean(), isTaken: fc.boolean(), isMarked: fc.boolean() })
  .map(({ hasTree, hasManifest, isLink, isMoved, isTaken, isMarked }) => {
    const present = [...(hasTree ? [TREE] : []), ...(hasManifest ? [MANIFEST] : [])];
    if (!isMoved)
      return changeOf(retireRenames(TARGET, HISTORY, isLink, isMarked), [
        ...present,
        ...(isMarked ? ['stage/kept.json'] : []),
        ...(isLink ? ['stage/kept'] : []),
      ]);
    const to = 'Sold/main';
    const renames = [
      ...(isTaken ? retireRenames(to, 'history/Sold/main/TIME', false) : []),
      ...moveRenames(TARGET, to, isLink),
    ];
    const taken = isTaken ? [`mirror/${to}`, `manifests/${to}.json`] : [];
    const staged = isLink ? ['stage/manifest.json', 'stage/link'] : ['stage/manifest.json'];
    return changeOf(renames, [...present, ...taken, ...staged]);
  });

const movements = fc.oneof(publishes, leavings);

describe('the moves of a change', () => {
  it('are recognised from each one made, and reach the same end after any interruption', () => {
    fc.assert(
      fc.property(movements, fc.nat(12), ({ moves, disk }, made) => {
        const cut = make(disk, moves.slice(0, made));
        expect(isAnyMade(disk, moves)).toBe(false);
        expect(isAnyMade(cut, moves)).toBe(made > 0 && moves.length > 0);
        expect(make(cut, moves)).toEqual(make(disk, moves));
      }),
    );
  });

  it('lose nothing: every old file still exists or was replaced by one of the same name', () => {
    fc.assert(
      fc.property(movements, ({ moves, disk }) => {
        const after = make(disk, moves);
        const left = [...disk.values()].filter((inode) => ![...after.values()].includes(inode));
        // The old manifest, with a kept copy, and a link that another one replaces.
        const replaceable = [MANIFEST, TREE].map((path) => disk.get(path));
        for (const inode of left) expect(replaceable).toContain(inode);
      }),
    );
  });

  it('leave no moment without a manifest while a target is published', () => {
    fc.assert(
      fc.property(publishes, fc.nat(12), ({ moves, disk }, made) => {
        const cut = make(disk, moves.slice(0, made));
        if (disk.has(MANIFEST)) expect(cut.has(MANIFEST)).toBe(true);
        expect(make(disk, moves).get(MANIFEST)).toBe(disk.get('stage/manifest.json'));
      }),
    );
  });
});

/** A tree of this mirror that nothing changed. */
const SITUATION = {
  mode: 'auto',
  canExchange: true,
  place: 'folder',
  isOwn: true,
  isDamaged: false,
  changes: changes(),
  files: [],
} as const;

function chosen(fields: Partial<PublishSituation>): string {
  return choosePublishMethod({ ...SITUATION, ...fields });
}

const files = (...paths: readonly string[]): ManifestFile[] => paths.map((path) => manifestFile(path));
const two = changes({ changed: ['a', 'b'] });
const one = changes({ changed: ['a'] });

const added = (path: string, ...others: readonly string[]): Partial<PublishSituation> => ({
  changes: changes({ added: [path] }),
  files: files(path, ...others),
});
const removed = (path: string, ...others: readonly string[]): Partial<PublishSituation> => ({
  changes: changes({ removed: [path] }),
  files: files(...others),
});

describe('the publishing of a change', () => {
  it.each<[string, Partial<PublishSituation>, string]>([
    ['the first time', { place: 'gone', changes: two }, 'first'],
    ['over a tree that someone changed', { isDamaged: true }, 'exchange'],
    ['over something else', { isOwn: false, changes: two }, 'exchange'],
    ['over something else, no swapping', { isOwn: false, canExchange: false, changes: two }, 'first'],
    ['over something else with publish: rename', { isOwn: false, mode: 'rename' }, 'first'],
    ['nothing but facts', {}, 'manifest'],
    ['one changed file', { changes: one, files: files('a') }, 'in-place'],
    ['one changed file, no swapping', { changes: one, files: files('a'), canExchange: false }, 'in-place'],
    ['one changed file with publish: exchange', { changes: one, mode: 'exchange' }, 'exchange'],
    ['one changed file with publish: rename', { changes: one, mode: 'rename' }, 'rename'],
    ['two changed files', { changes: two }, 'exchange'],
    ['the first time with publish: link', { place: 'gone', changes: two, mode: 'link' }, 'link'],
    ['nothing but facts with publish: link', { mode: 'link', place: 'link' }, 'manifest'],
    ['nothing but facts with publish: link, in a folder', { mode: 'link' }, 'link'],
    [
      'one changed file over a link with publish: link',
      { changes: one, mode: 'link', place: 'link' },
      'link',
    ],
    ['one changed file in place of a link', { changes: one, place: 'link' }, 'exchange'],
    [
      'two changed files over a link, no swapping',
      { changes: two, place: 'link', canExchange: false },
      'exchange',
    ],
    ['two changed files, no swapping', { changes: two, canExchange: false }, 'rename'],
    ['two changed files with publish: rename', { changes: two, mode: 'rename' }, 'rename'],
    ['a file that was renamed', { changes: changes({ added: ['b'], removed: ['a'] }) }, 'exchange'],
    ['one file more at the top', added('a'), 'in-place'],
    ['one file more in an existing folder', added('f/a', 'f/b'), 'in-place'],
    ['one file more in a folder that holds only folders', added('f/a', 'f/g/b'), 'in-place'],
    ['one file more in a new folder', added('f/a', 'b'), 'exchange'],
    ['one file more in a new folder, no swapping', { ...added('f/a'), canExchange: false }, 'rename'],
    ['one file more in a new folder whose name begins that of another', added('f/a', 'ff/b'), 'exchange'],
    ['one file less at the top', removed('a', 'b'), 'in-place'],
    ['the last file less', removed('a'), 'in-place'],
    ['one file less in a folder that stays', removed('f/a', 'f/b'), 'in-place'],
    ['one file less in a folder that is removed', removed('f/a'), 'exchange'],
  ])('%s', (_what, fields, method) => {
    expect(chosen(fields)).toBe(method);
  });
});

describe('the renames of a change', () => {
  const own = { ...SITUATION, target: TARGET, mode: 'link', canExchange: false, foreign: [] } as const;

  it.each(['link', 'dangling'] as const)('replace a link by a link in one step: %s', (place) => {
    const renames = publishRenames('link', { ...own, place, changes: two, keeping: null });
    expect(renames.filter(({ to }) => to === TREE)).toEqual([{ from: 'stage/link', to: TREE }]);
    expect(renames.some(({ from }) => from === TREE)).toBe(false);
  });

  it('have only the manifest if the target already has the path', () => {
    expect(moveRenames(TARGET, TARGET, false)).toEqual([{ from: 'stage/manifest.json', to: MANIFEST }]);
  });
});
