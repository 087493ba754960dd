import writeExcelFile, { type CellObject, type Row } from 'write-excel-file/node';

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const COST_CENTRES = ['Payroll', 'Rent', 'Travel', 'Marketing', 'Licences', 'Freight', 'Insurance', 'Audit'];
const MONEY_FORMAT = '#,##0.00';

/** Makes the bytes of a workbook: a budget of a date with its months, other numbers each time, and totals by a formula. */
export async function makeWorkbook(asOf: Date): Promise<Buffer> {
  const months = COST_CENTRES.map((centre, index): Row => {
    const base = 4000 + Math.random() * 56_000;
    const amounts = MONTHS.map(() => money(Math.round(base * (90 + Math.random() * 20)) / 100));
    const value = `SUM(B${index + 2}:M${index + 2})`;
    const total: CellObject = { value, type: 'Formula', format: MONEY_FORMAT };
    return [[centre], amounts, [total]].flat();
  });
  const titles = ['Cost centre', ...MONTHS, 'Total', `As of ${asOf.toISOString().slice(0, 10)}`];
  const heading: Row = titles.map((value) => ({ value, fontWeight: 'bold', backgroundColor: '#DDEBF7' }));
  const columns = titles.map((_, index) => ({ width: index === 0 ? 18 : 13 }));
  return writeExcelFile([heading, ...months], { sheet: 'Monthly', columns, stickyRowsCount: 1 }).toBuffer();
}

function money(value: number): CellObject {
  return { value, type: Number, format: MONEY_FORMAT };
}
