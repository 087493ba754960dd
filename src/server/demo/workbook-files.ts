import writeExcelFile, { type CellObject, type Row } from 'write-excel-file/node';

/** A sheet of a workbook. */
interface SampleSheet {
  readonly sheet: string;
  readonly data: Row[];
  readonly columns: Array<{ width: number }>;
  readonly stickyRowsCount: number;
}

/** Which edition of a workbook is wanted. */
export interface Edition {
  /** The numbers in it follow from this; another one gives another content. */
  readonly seed: number;
  /** The day it is of. */
  readonly asOf: Date;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const COST_CENTRES = ['Payroll', 'Rent', 'Travel', 'Marketing', 'Licences', 'Freight', 'Insurance', 'Audit'];
const REGIONS = ['Köln', 'München', 'Wien', 'Zürich', 'Lyon', 'Kraków', 'Malmö'];
const CUSTOMERS = [
  'Nordwind GmbH',
  'Café Größe',
  'Alpen Logistik AG',
  'Söderberg AB',
  'Lefèvre & Fils',
  'Ostsee Werft',
];
const VAT_RATES = [0.19, 0.2, 0.077];
const DAY_MS = 86_400_000;

function sheet(name: string, data: Row[], firstWidth: number): SampleSheet {
  const columns = Array.from({ length: data[0]?.length ?? 1 }, (_, index) => ({
    width: index === 0 ? firstWidth : 13,
  }));
  return { sheet: name, data, columns, stickyRowsCount: 1 };
}

function budgetSheets(figures: Figures, asOf: Date): SampleSheet[] {
  const last = COST_CENTRES.length + 1;
  const rows = COST_CENTRES.map((centre, index): Row => {
    const base = figures.amount(4000, 60_000);
    const months = MONTHS.map(() => money(Math.round(base * (0.9 + figures.below(21) / 100))));
    return [centre, ...months, moneyFormula(`SUM(B${index + 2}:M${index + 2})`)];
  });
  const totals = [...MONTHS, 'Total'].map((_, index) => {
    const column = String.fromCodePoint(66 + index);
    return moneyFormula(`SUM(${column}2:${column}${last})`);
  });
  const shares = COST_CENTRES.map((centre, index): Row => {
    const total = `Monthly!N${index + 2}`;
    return [centre, moneyFormula(total), percentFormula(`${total}/Monthly!N${last + 1}`)];
  });
  return [
    sheet('Summary', [headings('Cost centre', 'Year', 'Share'), ...shares, ['As of', day(asOf), null]], 18),
    sheet('Monthly', [headings('Cost centre', ...MONTHS, 'Total'), ...rows, ['Total', ...totals]], 18),
    sheet(
      'Assumptions',
      [
        headings('Assumption', 'Value'),
        ['Inflation', percent(figures.rate(0.015, 0.035))],
        ['Pay rise', percent(figures.rate(0.02, 0.045))],
        ['Reserve', money(figures.amount(50_000, 90_000))],
      ],
      18,
    ),
  ];
}

function forecastSheets(figures: Figures, asOf: Date): SampleSheet[] {
  const rows = REGIONS.map((region, index): Row => {
    const row = index + 2;
    return [
      region,
      ...[1, 2, 3, 4].map(() => money(figures.amount(80_000, 400_000))),
      moneyFormula(`SUM(B${row}:E${row})`),
      percent(figures.rate(-0.04, 0.12)),
      moneyFormula(`F${row}*(1+G${row})`),
    ];
  });
  const last = REGIONS.length + 1;
  const rates = ['EUR', 'CHF', 'SEK', 'PLN'].map((currency): Row => [
    currency,
    figures.rate(0.2, 1.1),
    day(asOf),
  ]);
  return [
    sheet(
      'Forecast',
      [
        headings('Region', 'Q1', 'Q2', 'Q3', 'Q4', 'Year', 'Growth', 'Next year'),
        ...rows,
        [
          'Total',
          null,
          null,
          null,
          null,
          moneyFormula(`SUM(F2:F${last})`),
          null,
          moneyFormula(`SUM(H2:H${last})`),
        ],
      ],
      14,
    ),
    sheet('FX rates', [headings('Currency', 'Rate', 'As of'), ...rates], 14),
  ];
}

function ledgerSheets(figures: Figures, asOf: Date): SampleSheet[] {
  const count = 25 + figures.below(10);
  const rows = Array.from({ length: count }, (_, index): Row => {
    const row = index + 2;
    return [
      `R-${asOf.getUTCFullYear()}-${String(1000 + index)}`,
      CUSTOMERS[figures.below(CUSTOMERS.length)],
      day(new Date(asOf.getTime() - figures.below(30) * DAY_MS)),
      money(figures.amount(120, 9800)),
      percent(VAT_RATES[figures.below(VAT_RATES.length)] ?? 0),
      moneyFormula(`ROUND(D${row}*(1+E${row}),2)`),
    ];
  });
  const totals = CUSTOMERS.map((customer, index): Row => [
    customer,
    moneyFormula(`SUMIF(Invoices!B$2:B$${count + 1},A${index + 2},Invoices!F$2:F$${count + 1})`),
  ]);
  return [
    sheet('Invoices', [headings('Number', 'Customer', 'Date', 'Net', 'VAT', 'Gross'), ...rows], 14),
    sheet('Customers', [headings('Customer', 'Gross'), ...totals], 22),
  ];
}

/**
 * Makes the bytes of a workbook of several sheets that fits its name: a forecast, a ledger of invoices, or else a budget.
 * @param path where the workbook lies; only its words count
 */
export async function makeWorkbook(path: string, { seed, asOf }: Edition): Promise<Buffer> {
  const figures = createFigures(seed);
  let sheets = budgetSheets;
  if (/forecast|pipeline|scenario/i.test(path)) sheets = forecastSheets;
  else if (/ledger|invoice|umsätze/i.test(path)) sheets = ledgerSheets;
  return writeExcelFile(sheets(figures, asOf)).toBuffer();
}

type Figures = ReturnType<typeof createFigures>;

/** Makes a source of plausible numbers, which are the same for the same seed (the generator "mulberry32"). */
function createFigures(seed: number) {
  let state = Math.trunc(seed) | 0;
  /** The next number from 0 up to and without 1. */
  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  return {
    /** An amount of money with cents, evenly spread between two limits. */
    amount: (low: number, high: number): number => Math.round((low + next() * (high - low)) * 100) / 100,
    /** A rate with four decimals, evenly spread between two limits. */
    rate: (low: number, high: number): number => Math.round((low + next() * (high - low)) * 10_000) / 10_000,
    /** A whole number from zero up to and without the limit. */
    below: (limit: number): number => Math.floor(next() * limit),
  };
}

const MONEY_FORMAT = '#,##0.00';
const PERCENT_FORMAT = '0.0%';
const DATE_FORMAT = 'yyyy-mm-dd';
const HEADER_COLOR = '#DDEBF7';

/** A row of column headings. */
function headings(...titles: readonly string[]): Row {
  return titles.map((value) => ({ value, fontWeight: 'bold', backgroundColor: HEADER_COLOR }));
}

/** An amount of money. */
function money(value: number): CellObject {
  return { value, type: Number, format: MONEY_FORMAT };
}

/** A share, 1 for the whole. */
function percent(value: number): CellObject {
  return { value, type: Number, format: PERCENT_FORMAT };
}

/** A day, taken in UTC. */
function day(value: Date): CellObject {
  const midnight = new Date(Date.UTC(value.getUTCFullYear(), value.getUTCMonth(), value.getUTCDate()));
  return { value: midnight, type: Date, format: DATE_FORMAT };
}

/**
 * A formula that gives an amount of money.
 * @param expression without an equals sign, as the file format has it
 */
function moneyFormula(expression: string): CellObject {
  return { value: expression, type: 'Formula', format: MONEY_FORMAT };
}

/** A formula that gives a share. */
function percentFormula(expression: string): CellObject {
  return { value: expression, type: 'Formula', format: PERCENT_FORMAT };
}
