import { type Generation, REPOSITORIES_PATH, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { type Entry, statementsOf } from './statement.ts';
import type { Subject } from './subject.ts';
import { given, holds } from './verdict.ts';
import { shapeOf } from './words.ts';

/** A key that no service issues. */
const MADE_UP = 'made-up-by-workbook-mirror-probe';

/**
 * A statement that a generation refuses a credential; the specification shows no status for it.
 * @param credential null for none; undefined if none can be sent that is surely wrong
 */
function refused(
  generation: Generation,
  section: string,
  what: string,
  credential: (subject: Subject) => string | null | undefined,
): Entry {
  return {
    section,
    says: `${generation === 'current' ? 'the current API' : 'v1'} refuses ${what}`,
    check: async (subject) => {
      const sent = credential(subject);
      given(sent !== undefined, 'there is no such credential to send');
      given(subject.options.wrong !== null, 'not asked');
      given(generation === 'current' || subject.apiToken !== null, 'v1 is not asked');
      const target = generation === 'current' ? REPOSITORIES_PATH : WORKBOOKS_PATH;
      const answer = await subject.ask({ target, generation, credential: sent });
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

/** The credentials of both generations; undefined if they are equal, or must not be sent to each other. */
function bothOf({ apiToken, options }: Subject): { apiKey: string; apiToken: string } | undefined {
  const apiKey = options.wrong?.apiKey;
  return apiKey === undefined || apiToken === null || apiKey === apiToken ? undefined : { apiKey, apiToken };
}

/** Statements about credentials. */
export const CREDENTIAL_STATEMENTS = statementsOf(
  { group: 'Credentials', section: '5', kind: 'required' },
  {
    'credentials.current.none': refused('current', '5.1', 'a request without X-API-KEY', () => null),
    'credentials.current.wrong': refused('current', '5.1', 'a key that does not exist', () => MADE_UP),
    'credentials.current.token': refused('current', '9', 'the token of v1', (s) => bothOf(s)?.apiToken),
    'credentials.current.group': refused(
      'current',
      '5.1',
      'a group key, which is for incoming webhooks only',
      ({ options }) => options.wrong?.groupKey,
    ),
    'credentials.v1.none': refused('v1', '5.2', 'a request without Authorization', () => null),
    'credentials.v1.wrong': refused('v1', '5.2', 'a token that does not exist', () => MADE_UP),
    'credentials.v1.key': refused('v1', '9', 'the key of the current API', (s) => bothOf(s)?.apiKey),
  },
);
