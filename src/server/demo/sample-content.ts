import type { CommitPlan, FileChange } from './commits.ts';
import { makeWorkbook } from './workbook-files.ts';

const DAY_MS = 86_400_000;

/** The people who commit to the sample repositories. */
export const PEOPLE = {
  anna: { name: 'Anna Schäfer', email: 'anna.schaefer@example.com' },
  jonas: { name: 'Jonas Weiß', email: 'jonas.weiss@example.com' },
  claire: { name: 'Claire Lefèvre', email: 'claire.lefevre@example.com' },
} as const satisfies Record<string, CommitPlan['author']>;

/** Attributes that could make a service send something else than the committed bytes. */
const ATTRIBUTES = `*.csv text eol=crlf
*.txt text ident export-subst
Scripts export-ignore
*.xlsx -diff
`;

/** A moment of a working day, counted back from now. */
function daysAgo(days: number): Date {
  const moment = new Date(Date.now() - days * DAY_MS);
  moment.setUTCHours(8 + (days % 9), (days * 7) % 60, (days * 13) % 60, 0);
  return moment;
}

async function workbook(path: string, days: number): Promise<FileChange> {
  return { path, content: await makeWorkbook(daysAgo(days)) };
}

function text(path: string, content: string, executable = false): FileChange {
  return { path, content, executable };
}

/** A commit on a branch, with its day counted back from now. @param from the branch that a new branch begins with */
function commit(
  branch: string,
  author: CommitPlan['author'],
  days: number,
  message: string,
  changes: readonly FileChange[],
  from?: string,
): CommitPlan {
  const start = from === undefined ? {} : { from: `refs/heads/${from}` };
  return { branch, author, at: daysAgo(days), message: `${message}\n`, changes, ...start };
}

/** The commits of the sample repository `Accounting`: two branches, and files that are easy to corrupt. */
export async function accountingCommits(): Promise<CommitPlan[]> {
  const { anna, jonas } = PEOPLE;
  return [
    commit('main', anna, 210, 'Start with the budgets of both years', [
      text('README.md', '# Accounting\n\nBudgets and ledgers. Closing is on the third working day.\n'),
      text('.gitattributes', ATTRIBUTES),
      text('Ledger/Chart of accounts.csv', 'account,name,type\n1000,Cash,asset\n4400,Revenue 19 %,income\n'),
      await workbook('Budget 2025.xlsx', 210),
      await workbook('Budget 2026.xlsx', 210),
    ]),
    commit('main', jonas, 160, 'Add the invoices of January', [
      await workbook('Ledger/Invoices 2026-01.xlsx', 160),
      text('Notes/2026/January/closing.txt', 'Closed by $Author$ at $Format:%ci$, $Id$.\nOpen: travel.\n'),
      text('Notes/empty.txt', ''),
      text('Scripts/close-month.sh', "#!/bin/sh\ngit log --since='1 month ago' -- '*.xlsx'\n", true),
    ]),
    commit('main', anna, 95, 'Raise the travel budget\n\nAgreed with the board.', [
      await workbook('Budget 2026.xlsx', 95),
    ]),
    commit('feature/q3', anna, 40, 'Draft quarter 3', [await workbook('Q3/Plan Q3.xlsx', 40)], 'main'),
  ];
}

/** The commits of the sample repository `Sales Europe`: names that need care in addresses and on disks. */
export async function salesCommits(): Promise<CommitPlan[]> {
  const { claire, jonas } = PEOPLE;
  return [
    commit('main', claire, 180, 'Umsätze und Vorschau', [
      text('README.md', '# Sales Europe\n\nEin Ordner je Standort.\n'),
      await workbook('Übersicht Köln/Umsätze 2026.xlsx', 180),
      await workbook('Übersicht Köln/Forecast Köln & Bonn.xlsx', 180),
    ]),
    commit('main', jonas, 120, 'Pipeline for München', [
      await workbook('München/Pipeline #1 (50%).xlsx', 120),
    ]),
    commit('spring-prices', claire, 90, 'New prices', [await workbook('Price calculation.xlsx', 90)], 'main'),
  ];
}

/** The commits of the external sample repository: two branches that both go on. */
export async function forecastCommits(): Promise<CommitPlan[]> {
  const { claire, jonas } = PEOPLE;
  return [
    commit('main', jonas, 200, 'Forecast model', [
      text('README.md', '# Forecast\n\n`Forecast.xlsx` is the model, `Inputs` is what it is fed with.\n'),
      await workbook('Forecast.xlsx', 200),
      await workbook('Inputs/Headcount budget.xlsx', 200),
    ]),
    commit('scenario/optimistic', claire, 70, 'A good year', [await workbook('Forecast.xlsx', 70)], 'main'),
    commit('main', jonas, 30, 'Monthly update', [await workbook('Forecast.xlsx', 30)]),
  ];
}
