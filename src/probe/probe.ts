import { MirrorError } from '../lib/errors/errors.ts';
import { KEY_HINT, type ProbeAnswer, ProbeStopped } from './connection.ts';
import { CONTENTS_STATEMENTS } from './contents.ts';
import { CREDENTIAL_STATEMENTS } from './credentials.ts';
import { REFERENCE_STATEMENTS } from './references.ts';
import { REPOSITORY_STATEMENTS } from './repositories.ts';
import { type Finding, type Statements, tryStatement } from './statement.ts';
import { type ProbeOptions, Subject } from './subject.ts';
import { TRANSPORT_STATEMENTS } from './transport.ts';
import { shapeOf } from './words.ts';
import { WORKBOOK_STATEMENTS } from './workbooks.ts';

/** All statements, in the order in which they are tried; those about all answers together come last. */
export const STATEMENTS: Statements = {
  ...REPOSITORY_STATEMENTS,
  ...WORKBOOK_STATEMENTS,
  ...REFERENCE_STATEMENTS,
  ...CONTENTS_STATEMENTS,
  ...CREDENTIAL_STATEMENTS,
};

/** The findings of a probe. They name no repository, workbook, person, host or key. */
export interface ProbeReport {
  /** Version of this format. */
  readonly format: 2;
  readonly requests: number;
  /** Why it ended early; null if it did not. */
  readonly stopped: string | null;
  readonly findings: readonly Finding[];
}

/**
 * Compares a service with its specification, and finds out how it behaves where that says "not shown". It only reads.
 * @throws MirrorError `credentials.refused`, `service.unreachable`, `service.not_found` or `service.wrong_kind` if the list of
 *   repositories is unavailable, on which all else depends; `pass.abandoned`
 */
export async function probe(options: ProbeOptions): Promise<ProbeReport> {
  const subject = new Subject(options);
  const { asker } = subject;
  const findings: Finding[] = [];
  const tryAll = async (statements: Statements): Promise<void> => {
    for (const [id, statement] of Object.entries(statements)) {
      asker.about = statement.group.toLowerCase();
      findings.push(await tryStatement(id, statement, subject));
    }
  };
  let stopped: string | null = null;
  try {
    asker.about = 'repositories';
    requireList(await subject.repositoryList());
    await tryAll(STATEMENTS);
  } catch (error) {
    if (!(error instanceof ProbeStopped)) throw error;
    if (findings.length === 0)
      throw new MirrorError(error.code, `The probe could not begin: ${error.message}.`, error);
    stopped = error.message;
  } finally {
    await asker.close();
  }
  await tryAll(TRANSPORT_STATEMENTS);
  return { format: 2, requests: asker.answers.length, stopped, findings };
}

/** @throws MirrorError without the list on which everything else depends */
function requireList(answer: ProbeAnswer): void {
  const { status, failure, body } = answer;
  // A router may answer every path with a web page.
  if (status === 200 && /^\s*[[{]/.test(body.toString('utf8', 0, 100))) return;
  if (failure !== null) throw failure;
  const message = `The list of repositories was answered with ${shapeOf(answer)}.`;
  if (status === 403) throw new MirrorError('credentials.refused', message, { hint: KEY_HINT });
  throw new MirrorError(status === 404 ? 'service.not_found' : 'service.wrong_kind', message, {
    hint: 'Check the setting service.baseUrl: it is the address of the application followed by /api.',
  });
}
