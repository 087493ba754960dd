import {
  CREDENTIAL_HEADERS,
  type Generation,
  REPOSITORIES_PATH,
  WORKBOOKS_PATH,
} from '../lib/api/requests.ts';
import type { Statement, Statements } from './statement.ts';
import type { SubjectOptions } from './subject.ts';
import { shapeOf } from './words.ts';
import { given, holds, type Need } from './verdict.ts';

/** A key that no service issues. */
const MADE_UP = 'made-up-by-workbook-mirror-probe';

const TARGETS: Readonly<Record<Generation, string>> = { current: REPOSITORIES_PATH, v1: WORKBOOKS_PATH };

/**
 * A statement that a credential is refused; the specification shows no status for it.
 * @param credential null for none; undefined if none can be sent that is surely wrong
 */
function refused(
  section: string,
  says: string,
  generation: Generation,
  credential: (options: SubjectOptions) => string | null | undefined,
  needs: Need = 'wrong-keys',
): Statement {
  return {
    group: 'Credentials',
    section,
    kind: 'required',
    says,
    needs,
    check: async (subject) => {
      const value = credential(subject.options);
      given(value !== undefined, 'there is no such credential to send');
      given(generation === 'current' || subject.has('token'), 'v1 is not asked');
      const headers: Record<string, string> =
        value === null ? {} : { [CREDENTIAL_HEADERS[generation]]: value };
      const target = TARGETS[generation];
      const answer = await subject.ask({ target, generation, isAnonymous: true, headers });
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

/** A credential of the other generation, which must be refused; undefined if it fits as well, or must not be sent. */
function other({ apiToken, wrong }: SubjectOptions, which: 'apiKey' | 'apiToken'): string | undefined {
  if (wrong?.apiKey === undefined || apiToken === null || wrong.apiKey === apiToken) return undefined;
  return which === 'apiKey' ? wrong.apiKey : apiToken;
}

/** Statements about credentials. */
export const CREDENTIAL_STATEMENTS: Statements = {
  'credentials.current.none': refused(
    '5.1',
    'the current API refuses a request without X-API-KEY',
    'current',
    () => null,
  ),
  'credentials.current.wrong': refused(
    '5.1',
    'the current API refuses a key that does not exist',
    'current',
    () => MADE_UP,
  ),
  'credentials.current.token': refused('9', 'the current API refuses the token of v1', 'current', (options) =>
    other(options, 'apiToken'),
  ),
  'credentials.current.group': refused(
    '5.1',
    'a group key is refused for everything but incoming webhooks',
    'current',
    ({ wrong }) => wrong?.groupKey,
    'group-key',
  ),
  'credentials.v1.none': refused('5.2', 'v1 refuses a request without Authorization', 'v1', () => null),
  'credentials.v1.wrong': refused('5.2', 'v1 refuses a token that does not exist', 'v1', () => MADE_UP),
  'credentials.v1.key': refused('9', 'v1 refuses the key of the current API', 'v1', (options) =>
    other(options, 'apiKey'),
  ),
};
