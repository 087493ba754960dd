/** What a column needs. */
export interface ColumnNeed {
  /** Its longest word: narrower, and words are broken. */
  readonly least: number;
  /** Its longest cell: wider, and room is wasted. */
  readonly most: number;
}

/**
 * Shares the columns of a terminal among those of a table: everyone gets what its longest word needs, and what is left goes
 * to those that have more to say, in proportion (CSS 2.2, 17.5.2.2).
 * @returns null when not even the longest words have room
 */
export function shareWidth(needs: readonly ColumnNeed[], width: number): number[] | null {
  const least = needs.reduce((sum, need) => sum + need.least, 0);
  const most = needs.reduce((sum, need) => sum + need.most, 0);
  if (least > width) return null;
  if (most <= width) return needs.map((need) => need.most);
  const share = (width - least) / (most - least);
  return needs.map((need) => need.least + Math.floor((need.most - need.least) * share));
}
