import { joined, joinLines, say, type TerminalText } from '../lib/text/terminal-text.ts';
import type { ProbeReport } from './probe.ts';
import { type Finding, GROUPS } from './statement.ts';

/**
 * Formats a report as lines for a person, group by group: each statement with the outcome, the answer, and its meaning
 * for the mirror.
 * @param emphasise formats the name of a group
 */
export function renderReport(report: ProbeReport, emphasise: (text: string) => TerminalText): TerminalText {
  const groups = GROUPS.flatMap((group) => {
    const findings = report.findings.filter((finding) => finding.group === group);
    return findings.length === 0 ? [] : [joinLines([emphasise(group), ...findings.map(renderFinding)])];
  });
  const early = report.stopped === null ? '' : `It ended early: ${report.stopped}. `;
  const differing = report.findings.filter(({ outcome }) => outcome === 'differs').length;
  const end = joinLines([
    `${early}${report.requests} requests were sent; nothing was changed. ${differing} statements of the specification do not hold.`,
    'This report names no repository, workbook, person, host or key; read it before you send it.',
  ]);
  return joined([...groups, end], say`\n\n`);
}

/** Wide enough for every outcome. */
const OUTCOME_WIDTH = 'not tried'.length;

function renderFinding({ section, statement, outcome, answer, meaning }: Finding): TerminalText {
  const place = /^\d/.test(section) ? `the API, section ${section}` : section;
  const indent = ' '.repeat(OUTCOME_WIDTH + 4);
  return joinLines([
    say`  ${outcome.padEnd(OUTCOME_WIDTH)}  ${statement} (${place})`,
    say`${indent}${answer}`,
    ...(meaning === null ? [] : [say`${indent}→ ${meaning}`]),
  ]);
}
