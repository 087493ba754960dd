import { type Generation, REPOSITORIES_PATH, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { type Question, table } from './table.ts';
import { shapeOf } from './words.ts';

/** The generations of the API that are asked with a credential that does not fit. */
interface WronglyAsked {
  readonly generations: readonly Generation[];
}

/** Questions about credentials; those of generations that are not asked are left out. */
export const CREDENTIALS = table<WronglyAsked>('Credentials', {
  credentials: {
    question: 'how is a wrong or missing key answered?',
    read: ({ generations }) => (generations.length === 0 ? 'not asked' : null),
    meaning: 'with --with-wrong-key it is, once each; some installations lock people out',
  },
  'credentials.current.none': refused('no credential for the current API', 'current', 'none'),
  'credentials.current.wrong': refused('a made-up credential for the current API', 'current', 'made-up'),
  'credentials.v1.none': refused('no credential for v1', 'v1', 'none'),
  'credentials.v1.wrong': refused('a made-up credential for v1', 'v1', 'made-up'),
});

function refused(
  question: string,
  generation: Generation,
  credential: 'none' | 'made-up',
): Question<WronglyAsked> {
  const target = generation === 'current' ? REPOSITORIES_PATH : WORKBOOKS_PATH;
  return {
    question,
    ask: ({ generations }) => (generations.includes(generation) ? [{ generation, target, credential }] : []),
    read: ({ answers: [answer] }) => (answer === undefined ? null : shapeOf(answer)),
    meaning: ({ answer }) => meaningOf(answer.status),
  };
}

function meaningOf(status: number): string {
  if (status === 401) return 'the mirror sees that its key is refused, and does not send it on and on';
  if (status === 403) return 'the mirror takes it for a key that may not do this';
  if (status === 404) return 'a key that is refused looks like an address that is wrong: check both';
  if (status >= 300 && status < 400) return 'a redirect, as to a login page: the mirror does not follow it';
  if (status >= 200 && status < 300)
    return 'the service answers without a valid key: please report this to its operator';
  return 'the mirror takes it for a failure and tries again';
}
