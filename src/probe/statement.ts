import type { Subject } from './subject.ts';
import { NotMet } from './verdict.ts';

/** The parts of the report, in its order. */
export const GROUPS = [
  'Repositories',
  'Workbooks (v1)',
  'References and branches',
  'Archives and files',
  'Credentials',
  'Transport',
] as const;

/** Observable behaviour of the service, with what the specification says about it. */
export interface Statement {
  readonly group: (typeof GROUPS)[number];
  /** The section of the API's specification, or of another one for features beyond it. */
  readonly section: string;
  /**
   * - `required`: the specification demands it.
   * - `optional`: it may be missing, but must be right if it exists.
   * - `open`: the specification says "not shown"; every behaviour is fine.
   */
  readonly kind: 'required' | 'optional' | 'open';
  /** The statement; a question if the specification leaves it open. */
  readonly says: string;
  /**
   * Observes the service.
   * @returns the answer in counts and words: no name of a repository, workbook, person or host
   * @throws NotMet if the statement is false, or there is nothing to try it on
   */
  readonly check: (subject: Subject) => Promise<string> | string;
  /** The consequence for the mirror if the statement is false; or a function that derives it from the answer, null for none. */
  readonly meaning?: string | ((answer: string, outcome: Finding['outcome']) => string | null);
}

/** Statements by their ids, which are stable, in the order in which they are tried and shown. */
export type Statements = Readonly<Record<string, Statement>>;

/** A statement that differs from the defaults of its group in some fields. */
export type Entry = Pick<Statement, 'says' | 'check'> & Partial<Statement>;

/** The statements of a group, which have its defaults in common. */
export function statementsOf(
  defaults: Pick<Statement, 'group' | 'section' | 'kind'>,
  entries: Readonly<Record<string, Entry>>,
): Statements {
  return Object.fromEntries(Object.entries(entries).map(([id, entry]) => [id, { ...defaults, ...entry }]));
}

/** The finding about a statement. */
export interface Finding extends Pick<Statement, 'group' | 'section' | 'kind'> {
  readonly id: string;
  readonly statement: string;
  /** `seen` is for behaviour that the specification leaves open. */
  readonly outcome: 'holds' | 'differs' | 'seen' | 'not tried';
  readonly answer: string;
  /** The consequence for the mirror; null without one. */
  readonly meaning: string | null;
}

/** Tries one statement. @throws ProbeStopped, and errors that neither the service nor the statement caused */
export async function tryStatement(id: string, statement: Statement, subject: Subject): Promise<Finding> {
  const { group, section, kind, says, check, meaning = null } = statement;
  const found = (outcome: Finding['outcome'], answer: string): Finding => {
    const what = typeof meaning === 'function' ? meaning : () => (outcome === 'differs' ? meaning : null);
    const about = { group, id, section, kind, statement: says };
    return { ...about, outcome, answer, meaning: what(answer, outcome) };
  };
  try {
    return found(kind === 'open' ? 'seen' : 'holds', await check(subject));
  } catch (error) {
    if (error instanceof NotMet) return found(error.outcome, error.message);
    throw error;
  }
}
