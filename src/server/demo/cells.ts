import type { CellObject, Row } from 'write-excel-file/node';

const MONEY_FORMAT = '#,##0.00';
const PERCENT_FORMAT = '0.0%';
const DATE_FORMAT = 'yyyy-mm-dd';
const HEADER_COLOR = '#DDEBF7';

/** A row of column headings. */
export function headings(...titles: readonly string[]): Row {
  return titles.map((value) => ({ value, fontWeight: 'bold', backgroundColor: HEADER_COLOR }));
}

/** An amount of money. */
export function money(value: number): CellObject {
  return { value, type: Number, format: MONEY_FORMAT };
}

/** A share, 1 for the whole. */
export function percent(value: number): CellObject {
  return { value, type: Number, format: PERCENT_FORMAT };
}

/** A day, taken in UTC. */
export function day(value: Date): CellObject {
  const midnight = new Date(Date.UTC(value.getUTCFullYear(), value.getUTCMonth(), value.getUTCDate()));
  return { value: midnight, type: Date, format: DATE_FORMAT };
}

/**
 * A formula that gives an amount of money.
 * @param expression without an equals sign, as the file format has it
 */
export function moneyFormula(expression: string): CellObject {
  return { value: expression, type: 'Formula', format: MONEY_FORMAT };
}

/** A formula that gives a share. */
export function percentFormula(expression: string): CellObject {
  return { value: expression, type: 'Formula', format: PERCENT_FORMAT };
}
