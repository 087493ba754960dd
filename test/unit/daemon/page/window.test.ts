import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { offsetOf, piecesOf, rowAt } from '../../../../src/daemon/page/window.js';

const formOf = (count: number, open: readonly (readonly [number, number])[] = []) => ({
  count,
  rowPx: 40,
  openPx: new Map(open),
});

const anyForm = fc
  .tuple(
    fc.integer({ min: 0, max: 5000 }),
    fc.integer({ min: 20, max: 60 }),
    fc.array(fc.tuple(fc.nat(4999), fc.integer({ min: 1, max: 900 })), { maxLength: 5 }),
  )
  .map(([count, rowPx, open]) => ({
    count,
    rowPx,
    openPx: new Map(open.filter(([index]) => index < count)),
  }));

describe('the rows that are in the page', () => {
  it('are those in sight and a few more', () => {
    const pieces = piecesOf(formOf(5000), { fromPx: 4000, toPx: 4400, overscan: 2, pinned: null });
    expect(pieces[0]).toEqual({ kind: 'gap', heightPx: 98 * 40 });
    expect(pieces.filter(({ kind }) => kind === 'row')).toHaveLength(15);
    expect(pieces.at(-1)).toEqual({ kind: 'gap', heightPx: (5000 - 113) * 40 });
  });

  it('have the row with the focus among them, however far it is', () => {
    const sight = { fromPx: 100_000, toPx: 100_400, overscan: 2 };
    for (const pinned of [3, 4990]) {
      const pieces = piecesOf(formOf(5000), { ...sight, pinned });
      expect(pieces).toContainEqual({ kind: 'row', index: pinned });
    }
    const inSight = piecesOf(formOf(5000), { ...sight, pinned: 2503 });
    expect(inSight.filter((piece) => piece.kind === 'row' && piece.index === 2503)).toHaveLength(1);
  });

  it('are all of them where there are few, and none where there are none', () => {
    const sight = { fromPx: 0, toPx: 800, overscan: 8, pinned: null };
    expect(piecesOf(formOf(3), sight)).toEqual([0, 1, 2].map((index) => ({ kind: 'row', index })));
    expect(piecesOf(formOf(0), sight)).toEqual([]);
  });

  it('count what is open below rows', () => {
    const form = formOf(10, [[2, 300]]);
    expect(offsetOf(form, 2)).toBe(80);
    expect(offsetOf(form, 3)).toBe(420);
    expect(rowAt(form, 410)).toBe(2);
    expect(rowAt(form, 420)).toBe(3);
    expect(rowAt(form, 1e9)).toBe(9);
    expect(rowAt(form, -5)).toBe(0);
  });

  it('make up, with the gaps, the height of the whole table, each row once and in order', () => {
    fc.assert(
      fc.property(anyForm, fc.integer({ min: -100, max: 400_000 }), fc.nat(5100), (form, fromPx, pinned) => {
        const pieces = piecesOf(form, { fromPx, toPx: fromPx + 500, overscan: 3, pinned });
        const height = pieces.reduce(
          (sum, piece) =>
            sum + (piece.kind === 'gap' ? piece.heightPx : form.rowPx + (form.openPx.get(piece.index) ?? 0)),
          0,
        );
        const rows = pieces.flatMap((piece) => (piece.kind === 'row' ? [piece.index] : []));
        expect(height).toBe(offsetOf(form, form.count));
        expect(rows).toEqual([...new Set(rows)].sort((a, b) => a - b));
        expect(rows.length).toBeLessThan(40);
        if (form.count > 0) expect(rows).toContain(rowAt(form, fromPx));
      }),
    );
  });
});
