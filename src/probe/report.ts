import { joined, joinLines, say, type TerminalText } from '../lib/text/terminal-text.ts';
import { type Finding, GROUPS } from './table.ts';
import type { ProbeReport } from './probe.ts';

/** No column is narrower. */
const LEAST_COLUMN = 24;
const INDENT = '  ';

/**
 * Puts a report into a table for a person: a group after the other, a question, its answer, and what it means for the mirror.
 * @param width columns of the terminal
 * @param emphasise how the name of a group is shown
 */
export function renderReport(
  report: ProbeReport,
  width: number,
  emphasise: (text: string) => TerminalText,
): TerminalText {
  const columns = columnsFor(report.findings, width);
  const headings = { question: 'QUESTION', answer: 'ANSWER', meaning: 'WHAT IT MEANS FOR THE MIRROR' };
  const groups = GROUPS.flatMap((group) => {
    const findings = report.findings.filter((finding) => finding.group === group);
    return findings.length === 0
      ? []
      : [joinLines([emphasise(group), ...findings.map((each) => renderFinding(each, columns))])];
  });
  const early = report.stopped === null ? '' : `It ended early: ${report.stopped}. `;
  const end = `${early}${report.requests} requests were sent; nothing was changed.`;
  const privacy =
    'This report names no repository, workbook, person, host or key; read it before you send it.';
  return joined([renderFinding(headings, columns), ...groups, joinLines([end, privacy])], say`\n\n`);
}

interface Columns {
  readonly question: number;
  readonly answer: number;
  readonly meaning: number;
}

/** Shares the width: questions get what they need up to a third, answers and meanings the rest. */
export function columnsFor(findings: readonly Finding[], width: number): Columns {
  const room = Math.max(3 * LEAST_COLUMN, width - INDENT.length - 4);
  const longest = (field: 'question' | 'answer'): number =>
    Math.max(LEAST_COLUMN, ...findings.map((each) => each[field].length));
  const question = Math.min(longest('question'), Math.floor(room / 3));
  const answer = Math.min(longest('answer'), Math.floor((room - question) / 2));
  return { question, answer, meaning: room - question - answer };
}

function renderFinding(
  finding: Pick<Finding, 'question' | 'answer' | 'meaning'>,
  columns: Columns,
): TerminalText {
  const cells = (['question', 'answer', 'meaning'] as const).map((field) => {
    const width = columns[field];
    return { width, lines: wrap(finding[field], width) };
  });
  const height = Math.max(...cells.map(({ lines }) => lines.length));
  const rows = Array.from({ length: height }, (_, index) =>
    cells.map(({ width, lines }) => (lines[index] ?? '').padEnd(width)).join('  '),
  );
  return joinLines(rows.map((row) => (INDENT + row).trimEnd()));
}

/** Breaks a text into lines at its spaces; a word that alone is too long is cut. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const whole of text.split(' ')) {
    for (let word = whole; ; word = word.slice(width)) {
      const part = word.slice(0, width);
      if (line !== '' && line.length + 1 + part.length > width) {
        lines.push(line);
        line = part;
      } else line = line === '' ? part : `${line} ${part}`;
      if (word.length <= width) break;
    }
  }
  return [...lines, line];
}
