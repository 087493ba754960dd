import { type Generation, REPOSITORIES_PATH, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { type Entry, statementsOf } from './statement.ts';
import { given, holds } from './verdict.ts';
import { shapeOf } from './words.ts';

/** A key that no service issues. */
const MADE_UP = 'made-up-by-workbook-mirror-probe';

/** A statement that a generation refuses a credential, or none; the specification shows no status for it. */
function refused(generation: Generation, what: string, credential: string | null): Entry {
  const isCurrent = generation === 'current';
  return {
    section: isCurrent ? '5.1' : '5.2',
    says: `${isCurrent ? 'the current API' : 'v1'} refuses ${what}`,
    check: async (subject) => {
      given(subject.options.withWrongKey, 'not asked');
      given(isCurrent || subject.apiToken !== null, 'v1 is not asked');
      const target = isCurrent ? REPOSITORIES_PATH : WORKBOOKS_PATH;
      const answer = await subject.ask({ target, generation, credential });
      holds(answer.status >= 400 && answer.status < 500, shapeOf(answer));
      return shapeOf(answer);
    },
    meaning: meaningOf,
  };
}

/** The consequence for the mirror when its key is refused. */
function meaningOf(answer: string, outcome: string): string | null {
  if (outcome === 'not tried')
    return answer === 'not asked' ? 'with --with-wrong-key it is; some installations lock people out' : null;
  const status = Number.parseInt(answer, 10);
  if (status === 401) return null;
  if (status === 403) return 'the mirror treats it as a key without permission';
  if (status === 404) return 'a refused key looks like a wrong address: check both';
  if (status >= 300 && status < 400) return 'a redirect, as to a login page: the mirror does not follow it';
  if (status >= 200 && status < 300)
    return 'the service answers without a valid key: please report this to its operator';
  return 'the mirror treats it as a failure and tries again';
}

/** Statements about credentials. */
export const CREDENTIAL_STATEMENTS = statementsOf(
  { group: 'Credentials', section: '5', kind: 'required' },
  {
    'credentials.current.none': refused('current', 'a request without X-API-KEY', null),
    'credentials.current.wrong': refused('current', 'a key that does not exist', MADE_UP),
    'credentials.v1.none': refused('v1', 'a request without Authorization', null),
    'credentials.v1.wrong': refused('v1', 'a token that does not exist', MADE_UP),
  },
);
