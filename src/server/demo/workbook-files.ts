import writeExcelFile, { type CellObject, type Row } from 'write-excel-file/node';

/** Selects an edition of a workbook. */
export interface Edition {
  /** Determines the numbers in it; another seed gives other content. */
  readonly seed: number;
  /** Its date. */
  readonly asOf: Date;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const COST_CENTRES = ['Payroll', 'Rent', 'Travel', 'Marketing', 'Licences', 'Freight', 'Insurance', 'Audit'];
const MONEY_FORMAT = '#,##0.00';

/** Makes the bytes of a workbook: a budget with its months, and totals by a formula. */
export async function makeWorkbook({ seed, asOf }: Edition): Promise<Buffer> {
  const next = numbersFrom(seed);
  const months = COST_CENTRES.map((centre, index): Row => {
    const base = 4000 + next() * 56_000;
    const amounts = MONTHS.map(() => money(Math.round(base * (90 + next() * 20)) / 100));
    const value = `SUM(B${index + 2}:M${index + 2})`;
    const total: CellObject = { value, type: 'Formula', format: MONEY_FORMAT };
    return [[centre], amounts, [total]].flat();
  });
  const titles = ['Cost centre', ...MONTHS, 'Total', `As of ${asOf.toISOString().slice(0, 10)}`];
  const heading: Row = titles.map((value) => ({ value, fontWeight: 'bold', backgroundColor: '#DDEBF7' }));
  const columns = titles.map((_, index) => ({ width: index === 0 ? 18 : 13 }));
  return writeExcelFile([heading, ...months], { sheet: 'Monthly', columns, stickyRowsCount: 1 }).toBuffer();
}

/** Makes a generator of numbers from 0 to below 1, the same for the same seed (a linear congruential generator). */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function money(value: number): CellObject {
  return { value, type: Number, format: MONEY_FORMAT };
}
