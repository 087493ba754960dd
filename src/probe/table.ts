import type { Ask, ShortRequest } from './asker.ts';
import { NO_ANSWER, type ProbeAnswer } from './connection.ts';

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

/** The answer to one question. */
export interface Finding {
  readonly group: (typeof GROUPS)[number];
  /** Stable, for programs. */
  readonly id: string;
  readonly question: string;
  /** Counts and words only: no name of a repository, workbook, person or host. */
  readonly answer: string;
  /** The consequence for the mirror. */
  readonly meaning: string;
}

/** All that a question's answer is read from: the subject of its table, and the answers to its own requests. */
export type Seen<About> = About & {
  readonly answers: readonly ProbeAnswer[];
  /** The first of them; one that did not come where nothing was asked. */
  readonly answer: ProbeAnswer;
};

/** A question about the service: what is asked, how the answer is read, and what that means. */
export interface Question<About> {
  readonly question: string;
  /** The requests that it needs of its own. */
  readonly ask?: readonly ShortRequest[] | ((about: About) => readonly ShortRequest[]);
  /** The answer in words; null leaves the question out. */
  readonly read: (seen: Seen<About>) => string | null | Promise<string | null>;
  /** The consequence of that answer for the mirror. */
  readonly meaning: string | ((seen: Seen<About>, answer: string) => string);
}

/** Questions that are read from the same. */
export interface Table<About> {
  readonly group: Finding['group'];
  /** By their ids, in the order in which they are asked and shown. */
  readonly questions: Readonly<Record<string, Question<About>>>;
}

/** Makes a table. */
export function table<About>(group: Finding['group'], questions: Table<About>['questions']): Table<About> {
  return { group, questions };
}

/** Asks the questions of a table, one after the other. @throws ProbeStopped as the asker */
export async function answersTo<About>(
  { group, questions }: Table<About>,
  about: About,
  ask: Ask,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [id, { question, ask: requests = [], read, meaning }] of Object.entries(questions)) {
    const answers: ProbeAnswer[] = [];
    for (const request of typeof requests === 'function' ? requests(about) : requests)
      answers.push(await ask(request));
    const seen = { ...about, answers, answer: answers[0] ?? NO_ANSWER };
    const answer = await read(seen);
    if (answer === null) continue;
    const meant = typeof meaning === 'string' ? meaning : meaning(seen, answer);
    findings.push({ group, id, question, answer, meaning: meant });
  }
  return findings;
}
