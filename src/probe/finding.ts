/** The parts of the report, in its order. */
export const GROUPS = [
  'Repositories',
  'Workbooks (v1)',
  'References and branches',
  'Archives',
  'Files and requests',
  'Credentials',
  'Transport',
] as const;

/** What was found out about one question. */
export interface Finding {
  readonly group: (typeof GROUPS)[number];
  /** Stable, for programs. */
  readonly id: string;
  readonly question: string;
  /** Counts and words only: no name of a repository, workbook, person or host. */
  readonly answer: string;
  /** What it means for the mirror. */
  readonly meaning: string;
}

/** Findings of one group, put together. */
export type Find = (id: string, question: string, answer: string, meaning: string) => Finding;

/** Makes findings of a group. */
export function findingsOf(group: Finding['group']): Find {
  return (id, question, answer, meaning) => ({ group, id, question, answer, meaning });
}

/** What stands where a question could not be asked. */
export const NOT_ASKED = 'not asked';
