import { CONTENTS_STATEMENTS } from './contents.ts';
import { CREATION_STATEMENTS } from './creation.ts';
import { CREDENTIAL_STATEMENTS } from './credentials.ts';
import { REPOSITORY_STATEMENTS } from './repositories.ts';
import type { Subject } from './subject.ts';
import { type Need, NotApplicable, NotMet } from './verdict.ts';
import type { Kind, Statement } from './statement.ts';
import { WORKBOOK_STATEMENTS } from './workbooks.ts';

/** All statements, in the order in which they are tried: what creates something comes last. */
export const STATEMENTS: readonly Statement[] = [
  ...REPOSITORY_STATEMENTS,
  ...WORKBOOK_STATEMENTS,
  ...CONTENTS_STATEMENTS,
  ...CREDENTIAL_STATEMENTS,
  ...CREATION_STATEMENTS,
];

/** What became of a statement. */
export interface Result {
  readonly id: string;
  readonly section: string;
  readonly kind: Kind;
  readonly statement: string;
  readonly outcome: 'pass' | 'fail' | 'not applicable';
  /** What was seen, or why it could not be. */
  readonly detail: string;
}

const WHAT_IS_NEEDED: Readonly<Record<Need, string>> = {
  token: 'no token of v1 was given',
  'group-key': 'no group key was given',
  writes: 'creating is not allowed: --allow-writes',
  'external-url': 'no address was given: --external-url',
};

/** Tries one statement. @throws what is neither the service's nor the statement's fault */
export async function tryStatement(statement: Statement, subject: Subject): Promise<Result> {
  const { id, section, kind, statement: text, needs = [], check } = statement;
  const result = (outcome: Result['outcome'], detail: string): Result => ({
    id,
    section,
    kind,
    statement: text,
    outcome,
    detail,
  });
  const missing = needs.find((need) => !subject.has(need));
  if (missing !== undefined) return result('not applicable', WHAT_IS_NEEDED[missing]);
  try {
    return result('pass', await check(subject));
  } catch (error) {
    if (error instanceof NotApplicable) return result('not applicable', error.message);
    if (!(error instanceof NotMet)) throw error;
    // What is only looked at is never wrong.
    return kind === 'observed' ? result('not applicable', error.message) : result('fail', error.message);
  }
}

/** Tries all statements, one after the other. @param onResult told of each as it comes */
export async function tryAll(
  subject: Subject,
  onResult: (result: Result) => void = () => {},
): Promise<Result[]> {
  const results: Result[] = [];
  for (const statement of STATEMENTS) {
    const result = await tryStatement(statement, subject);
    onResult(result);
    results.push(result);
  }
  return results;
}
