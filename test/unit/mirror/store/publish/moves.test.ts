import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Move } from '../../../../../src/mirror/store/publish/journal.ts';
import {
  type Occupant,
  publishMoves,
  renameMoves,
  retireMoves,
} from '../../../../../src/mirror/store/publish/moves.ts';

const TARGET = 'Sales/main';
const HISTORY = `history/${TARGET}/TIME`;

/** What stands where, by inode. */
type Disk = Map<string, number>;

/** Makes moves as the program does: one whose source is not there any more was made already. */
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

/** Everything that moves need where it is before the first one. */
function before(moves: readonly Move[], occupant: Occupant | null, manifestInode: number | null): Disk {
  const disk: Disk = new Map();
  if (occupant !== null) disk.set(`mirror/${TARGET}`, occupant.inode);
  if (manifestInode !== null) disk.set(`manifests/${TARGET}.json`, manifestInode);
  for (const { from, inode } of moves) {
    const isMoved = moves.some((move) => move.to === from || (move.swaps === true && move.from === from));
    if (!isMoved || inode >= 100) disk.set(from, inode);
  }
  return disk;
}

const occupants = fc.option(fc.record({ inode: fc.constant(1), isLink: fc.boolean() }));
const manifests = fc.option(fc.constant(2));
const inodes = fc
  .uniqueArray(fc.constantFrom('a', 'b', 'c/d', 'e'), { maxLength: 3 })
  .chain((paths) =>
    fc.integer({ min: 100, max: 200 }).map((first) => new Map(paths.map((path, at) => [path, first + at]))),
  );

const publishes = fc
  .record({
    method: fc.constantFrom('manifest', 'first', 'in-place', 'exchange', 'link', 'rename'),
    canExchange: fc.boolean(),
    files: inodes,
    occupant: occupants,
    manifest: manifests,
    keeps: fc.constantFrom('nothing', 'links', 'all'),
  })
  .map(({ method, canExchange, files, occupant, manifest, keeps }) => {
    const isWhole = method === 'first' || method === 'exchange' || method === 'link';
    const canKeep = isWhole && occupant !== null && !occupant.isLink;
    const keptInode = keeps === 'all' && canKeep ? null : 301;
    const moves = publishMoves({
      target: TARGET,
      method,
      canExchange,
      manifestInode: 300,
      sourceInode: isWhole ? 302 : null,
      files: isWhole ? new Map() : files,
      removed: new Map(),
      occupant,
      history:
        keeps === 'nothing'
          ? null
          : { place: HISTORY, keptInode, manifestInode: manifest === null ? null : 303 },
    });
    return { moves, disk: before(moves, occupant, manifest) };
  });

const leavings = fc
  .record({ occupant: occupants, manifest: manifests, isRenamed: fc.boolean() })
  .map(({ occupant, manifest, isRenamed }) => {
    const facts = { target: TARGET, occupant, manifestInode: manifest };
    const link = occupant?.isLink === true ? 301 : null;
    const moves = isRenamed
      ? renameMoves(facts, 'Sold/main', { manifestInode: 300, linkInode: link })
      : retireMoves(facts, HISTORY, link);
    return { moves, disk: before(moves, occupant, manifest) };
  });

const changes = fc.oneof(publishes, leavings);

describe('the moves of a change', () => {
  it('are proven by each of them that was made, and lead to one end wherever they were cut off', () => {
    fc.assert(
      fc.property(changes, fc.nat(12), ({ moves, disk }, made) => {
        const cut = make(disk, moves.slice(0, made));
        expect(isAnyMade(disk, moves)).toBe(false);
        expect(isAnyMade(cut, moves)).toBe(made > 0 && moves.length > 0);
        expect(make(cut, moves)).toEqual(make(disk, moves));
      }),
    );
  });

  it('lose nothing: everything that was there is somewhere still, or gave way to a file of its name', () => {
    fc.assert(
      fc.property(changes, ({ moves, disk }) => {
        const after = make(disk, moves);
        const left = [...disk.values()].filter((inode) => ![...after.values()].includes(inode));
        // The manifest before, which is kept by another link, and a link in place of which another one is put.
        for (const inode of left) expect([1, 2]).toContain(inode);
      }),
    );
  });

  it('leave no instant without a manifest while a target is published', () => {
    fc.assert(
      fc.property(publishes, fc.nat(12), ({ moves, disk }, made) => {
        const manifest = `manifests/${TARGET}.json`;
        const cut = make(disk, moves.slice(0, made));
        if (disk.has(manifest)) expect(cut.has(manifest)).toBe(true);
        expect(make(disk, moves).get(manifest)).toBe(300);
      }),
    );
  });
});
