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
const PERCENT_FORMAT = '0.0%';

/** Makes the bytes of a workbook: a budget with its months, and a summary of them by formulas. */
export async function makeWorkbook({ seed, asOf }: Edition): Promise<Buffer> {
  const next = numbersFrom(seed);
  const totalRow = COST_CENTRES.length + 2;
  const months = COST_CENTRES.map((centre, index): Row => {
    const base = 4000 + next() * 56_000;
    const amounts = MONTHS.map(() => money(Math.round(base * (90 + next() * 20)) / 100));
    return [centre, ...amounts, formula(`SUM(B${index + 2}:M${index + 2})`)];
  });
  const totals = [...MONTHS, 'Total'].map((_, index) => {
    const column = String.fromCodePoint('B'.charCodeAt(0) + index);
    return formula(`SUM(${column}2:${column}${totalRow - 1})`);
  });
  const shares = COST_CENTRES.map((centre, index): Row => {
    const total = `Monthly!N${index + 2}`;
    return [centre, formula(total), formula(`${total}/Monthly!N${totalRow}`, PERCENT_FORMAT)];
  });
  const day = new Date(asOf.toISOString().slice(0, 10));
  const summary = [
    headings('Cost centre', 'Year', 'Share'),
    ...shares,
    ['As of', { value: day, type: Date, format: 'yyyy-mm-dd' }, null] satisfies Row,
  ];
  const monthly = [headings('Cost centre', ...MONTHS, 'Total'), ...months, ['Total', ...totals]];
  return writeExcelFile([sheet('Summary', summary), sheet('Monthly', monthly)]).toBuffer();
}

/** Makes a generator of numbers from 0 to below 1, the same for the same seed (the generator "mulberry32"). */
function numbersFrom(seed: number): () => number {
  let state = Math.trunc(seed) | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function sheet(name: string, data: Row[]) {
  const columns = (data[0] ?? []).map((_, index) => ({ width: index === 0 ? 18 : 13 }));
  return { sheet: name, data, columns, stickyRowsCount: 1 };
}

function headings(...titles: readonly string[]): Row {
  return titles.map((value) => ({ value, fontWeight: 'bold', backgroundColor: '#DDEBF7' }));
}

function money(value: number): CellObject {
  return { value, type: Number, format: MONEY_FORMAT };
}

/** @param expression without an equals sign, as the file format has it */
function formula(expression: string, format = MONEY_FORMAT): CellObject {
  return { value: expression, type: 'Formula', format };
}
