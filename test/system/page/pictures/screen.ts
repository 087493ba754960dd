import type { Recording } from './recording.ts';

/** Characters that follow one another in one weight. */
export interface Run {
  readonly text: string;
  readonly isBold: boolean;
}

/** What a row of the screen held for a while. */
export interface Shown {
  readonly row: number;
  readonly runs: readonly Run[];
  readonly fromMs: number;
  /** When something else took its place; null where it stayed to the end. */
  readonly untilMs: number | null;
}

interface Cell {
  readonly character: string;
  readonly isBold: boolean;
}

/** What the program writes to a terminal. Anything else has to be learned here first, rather than be shown wrongly. */
const PIECE = /(?<control>[\r\n])|\p{Cc}\[(?<number>\d*)(?<letter>[Km])|(?<character>\P{Cc})/uy;

/** The beginning of an escape sequence whose end comes with the next output. */
const CUT_OFF = /[^\P{Cc}\r\n](?:\[\d*)?$/u;

/** Nobody sees what is there for less than a frame of most screens. */
const FRAME_MS = 17;

/**
 * What was on the screen, row by row, and when.
 * @throws Error where the program wrote what this does not know
 */
export function play({ columns, events }: Recording): Shown[] {
  const screen = createScreen(columns);
  const shown: Shown[] = [];
  const present: { readonly runs: readonly Run[]; readonly fromMs: number }[] = [];
  for (const { atMs, text } of events) {
    screen.write(text);
    for (const [row, cells] of screen.rows.entries()) {
      const runs = runsOf(cells);
      const before = present.at(row);
      if (before !== undefined && JSON.stringify(before.runs) === JSON.stringify(runs)) continue;
      if (before !== undefined && atMs - before.fromMs >= FRAME_MS)
        shown.push({ row, ...before, untilMs: atMs });
      present[row] = { runs, fromMs: atMs };
    }
  }
  for (const [row, last] of present.entries()) shown.push({ row, ...last, untilMs: null });
  return shown.filter(({ runs }) => runs.length > 0);
}

/** A terminal that is as high as it takes. */
function createScreen(columns: number): { readonly rows: readonly Cell[][]; write: (text: string) => void } {
  const rows: Cell[][] = [[]];
  let [row, column, isBold, rest] = [0, 0, false, ''];
  const current = (): Cell[] => (rows[row] ??= []);
  const nextRow = (): void => {
    row += 1;
    current();
  };
  const put = (character: string): void => {
    if (column === columns) {
      nextRow();
      column = 0;
    }
    const cells = current();
    while (cells.length < column) cells.push({ character: ' ', isBold: false });
    cells[column] = { character, isBold };
    column += 1;
  };
  const escape = (letter: string, number: string): void => {
    if (letter === 'K' && number === '') current().splice(column);
    else if (letter === 'm' && (number === '1' || number === '22')) isBold = number === '1';
    else throw new Error(`the escape sequence [${number}${letter} is not known here`);
  };
  const write = (text: string): void => {
    const all = rest + text;
    rest = CUT_OFF.exec(all)?.[0] ?? '';
    const whole = all.slice(0, all.length - rest.length);
    for (let at = 0; at < whole.length; at = PIECE.lastIndex) {
      PIECE.lastIndex = at;
      const { letter, number = '', control, character } = PIECE.exec(whole)?.groups ?? {};
      if (letter !== undefined) escape(letter, number);
      else if (control === '\r') column = 0;
      else if (control === '\n') nextRow();
      else if (character !== undefined) put(character);
      else throw new Error(`${JSON.stringify(whole.slice(at, at + 10))} is not known here`);
    }
  };
  return { rows, write };
}

function runsOf(cells: readonly Cell[]): Run[] {
  const runs: { text: string; readonly isBold: boolean }[] = [];
  for (const { character, isBold } of cells) {
    const last = runs.at(-1);
    if (last?.isBold === isBold) last.text += character;
    else runs.push({ text: character, isBold });
  }
  return runs;
}

/** The lines that stayed to the end. */
export function lastScreen(shown: readonly Shown[]): string[] {
  const rows = new Map(
    shown.flatMap(({ row, runs, untilMs }) => (untilMs === null ? [[row, runs] as const] : [])),
  );
  return Array.from({ length: Math.max(...rows.keys()) + 1 }, (_, row) =>
    (rows.get(row) ?? []).map(({ text }) => text).join(''),
  );
}
