/** Which rows of a long table are in the page: those in sight, and gaps as high as the others. Everything here is pure. */

/**
 * A part of the table, from above: a row, or a gap in place of rows.
 * @typedef {{ readonly kind: 'row', readonly index: number } | { readonly kind: 'gap', readonly heightPx: number }} Piece
 */

/**
 * The form of a table.
 * @typedef {object} TableForm
 * @property {number} count rows in all
 * @property {number} rowPx height of a row without what is open below it
 * @property {ReadonlyMap<number, number>} openPx height of what is open below rows, by index
 */

/**
 * Where a row begins, in pixels from the first one.
 * @param {TableForm} form
 * @param {number} index
 * @returns {number}
 */
export function offsetOf({ rowPx, openPx }, index) {
  let offset = index * rowPx;
  for (const [at, heightPx] of openPx) if (at < index) offset += heightPx;
  return offset;
}

/**
 * The row at a height, the nearest one if there is none.
 * @param {TableForm} form
 * @param {number} atPx
 * @returns {number} its index; 0 for an empty table
 */
export function rowAt(form, atPx) {
  let low = 0;
  let high = Math.max(0, form.count - 1);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (offsetOf(form, middle) <= atPx) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * The pieces of the table for what is in sight.
 * @param {TableForm} form
 * @param {{ fromPx: number, toPx: number, overscan: number, pinned: number | null }} sight `overscan` is how many rows more
 *   there are on either side; `pinned` is a row that is there wherever it is, as it has the focus
 * @returns {Piece[]}
 */
export function piecesOf(form, { fromPx, toPx, overscan, pinned }) {
  if (form.count === 0) return [];
  const first = Math.max(0, rowAt(form, fromPx) - overscan);
  const last = Math.min(form.count - 1, rowAt(form, toPx) + overscan);
  /** @type {number[]} */
  const indices = [];
  if (pinned !== null && pinned < first) indices.push(pinned);
  for (let index = first; index <= last; index += 1) indices.push(index);
  if (pinned !== null && pinned > last && pinned < form.count) indices.push(pinned);
  /** @type {Piece[]} */
  const pieces = [];
  let next = 0;
  for (const index of indices) {
    const gapPx = offsetOf(form, index) - offsetOf(form, next);
    if (gapPx > 0) pieces.push({ kind: 'gap', heightPx: gapPx });
    pieces.push({ kind: 'row', index });
    next = index + 1;
  }
  const restPx = offsetOf(form, form.count) - offsetOf(form, next);
  return restPx > 0 ? [...pieces, { kind: 'gap', heightPx: restPx }] : pieces;
}
