import { type Measured, medianOf, type Sample } from './measure.ts';

/** The result of a scenario. */
export interface Table {
  readonly title: string;
  /** The first one is the base of all ratios. */
  readonly rows: readonly Measured[];
  /** The notes for its readers. */
  readonly notes?: readonly string[];
}

/** The name of our program in every table. */
export const OURS = 'workbook-mirror';

/** A duration for people. */
export function durationText(ms: number): string {
  if (Number.isNaN(ms)) return '';
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

/** A size for people; 1 MB is a million bytes. */
export function sizeText(sizeBytes: number): string {
  if (sizeBytes < 10_000) return `${sizeBytes.toFixed(0)} B`;
  return sizeBytes < 1e7 ? `${(sizeBytes / 1e3).toFixed(0)} kB` : `${(sizeBytes / 1e6).toFixed(0)} MB`;
}

function wallMsOf({ samples }: Measured): number {
  return medianOf(samples.map(({ wallMs }) => wallMs));
}

function medianText(
  row: Measured,
  pick: (sample: Sample) => number | null,
  text: (value: number) => string,
): string {
  const values = row.samples.map(pick).filter((value) => value !== null);
  return values.length === 0 ? '' : text(medianOf(values));
}

function rangeText({ samples }: Measured): string {
  const all = samples.map(({ wallMs }) => wallMs).filter((wallMs) => !Number.isNaN(wallMs));
  if (all.length === 0) return '';
  return `${durationText(Math.min(...all))} .. ${durationText(Math.max(...all))}`;
}

/** The unit of another figure, by its name. */
function textOf(name: string, value: number): string {
  if (name.endsWith(' bytes')) return sizeText(value);
  return name.endsWith(' time') ? durationText(value) : String(Math.round(value));
}

/** The columns, each with its heading, and its text for a contender. */
function columnsOf({ rows }: Table) {
  const [base] = rows;
  const isOurs = base?.contender === OURS;
  const more = new Set(
    rows.flatMap(({ samples }) => samples.flatMap((sample) => Object.keys(sample.more ?? {}))),
  );
  const columns = [
    { heading: 'contender', cell: ({ contender }: Measured) => contender },
    { heading: 'median', cell: (row: Measured) => row.missing ?? durationText(wallMsOf(row)) },
    { heading: 'range', cell: rangeText },
    {
      heading: isOurs ? 'ours : this' : 'this : base',
      cell: (row: Measured) => {
        const ratio = base === undefined ? NaN : wallMsOf(base) / wallMsOf(row);
        return Number.isNaN(ratio) ? '' : (isOurs ? ratio : 1 / ratio).toFixed(2);
      },
    },
    { heading: 'CPU', cell: (row: Measured) => medianText(row, ({ cpuMs }) => cpuMs, durationText) },
    { heading: 'memory', cell: (row: Measured) => medianText(row, ({ peakBytes }) => peakBytes, sizeText) },
  ];
  for (const name of more) {
    const figure = (sample: Sample): number | null => sample.more?.[name] ?? null;
    const cell = (row: Measured): string => medianText(row, figure, (value) => textOf(name, value));
    columns.push({ heading: name.replace(/ (?:bytes|time)$/, ''), cell });
  }
  return columns.filter(({ cell }, index) => index === 0 || rows.some((row) => cell(row) !== ''));
}

/** A table in Markdown. */
export function formatTable(table: Table): string {
  const columns = columnsOf(table);
  const cells = [
    columns.map(({ heading }) => heading),
    ...table.rows.map((row) => columns.map(({ cell }) => cell(row).replaceAll('|', String.raw`\|`))),
  ];
  const widths = columns.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)));
  // Only the names of contenders are texts.
  const [heading = [], ...rows] = cells.map((line) =>
    line.map((cell, index) =>
      index === 0 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
    ),
  );
  const rule = widths.map((width, index) => (index === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  const body = [heading, rule, ...rows].map((line) => `| ${line.join(' | ')} |`);
  const notes = (table.notes ?? []).map((note) => `- ${note}`);
  return [`**${table.title}**`, '', ...body, ...(notes.length === 0 ? [] : ['', ...notes])].join('\n');
}
