import { type Measured, medianOf, type Sample } from './measure.ts';

/** The result of a scenario. */
export interface Table {
  readonly title: string;
  readonly rows: readonly Measured[];
  /** The base of all ratios; `workbook-mirror` if left out. */
  readonly base?: string;
  /** The notes for its readers. */
  readonly notes?: readonly string[];
}

/** The name of our program in every table. */
export const OURS = 'workbook-mirror';

/** A column: its heading, and its text for a contender. */
interface Column {
  readonly heading: string;
  readonly cell: (row: Measured) => string;
}

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

function columnsOf({ rows, base = OURS }: Table): Column[] {
  const ours = rows.find(({ contender }) => contender === base);
  const more = new Set(
    rows.flatMap(({ samples }) => samples.flatMap((sample) => Object.keys(sample.more ?? {}))),
  );
  const columns: Column[] = [
    { heading: 'contender', cell: ({ contender }) => contender },
    { heading: 'median', cell: (row) => row.missing ?? durationText(wallMsOf(row)) },
    { heading: 'range', cell: (row) => (row.samples.length === 0 ? '' : rangeText(row)) },
    {
      heading: base === OURS ? 'ours : this' : 'this : base',
      cell: (row) => {
        if (ours === undefined) return '';
        const ratio = wallMsOf(ours) / wallMsOf(row);
        if (Number.isNaN(ratio)) return '';
        return (base === OURS ? ratio : 1 / ratio).toFixed(2);
      },
    },
    { heading: 'CPU', cell: (row) => medianText(row, ({ cpuMs }) => cpuMs, durationText) },
    { heading: 'memory', cell: (row) => medianText(row, ({ peakBytes }) => peakBytes, sizeText) },
  ];
  for (const name of more)
    columns.push({
      heading: name.replace(/ (?:bytes|time)$/, ''),
      cell: (row) =>
        medianText(
          row,
          (sample) => sample.more?.[name] ?? null,
          (value) => textOf(name, value),
        ),
    });
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
