import { REPOSITORIES_PATH, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import type { Asker } from './asker.ts';
import { type Finding, findingsOf } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';
import { shapeOf } from './words.ts';

/** What was answered without a credential, and to one that is made up. */
export interface CredentialsSeen {
  readonly current: { readonly none: ProbeAnswer; readonly madeUp: ProbeAnswer };
  /** Null where v1 is not asked. */
  readonly v1: { readonly none: ProbeAnswer; readonly madeUp: ProbeAnswer } | null;
}

/** Asks without a credential and with one that is made up, once each. */
export async function askWithoutCredential(asker: Asker, asksV1: boolean): Promise<CredentialsSeen> {
  const pair = async (ask: Asker['current'], path: string): Promise<CredentialsSeen['current']> => ({
    none: await ask(path, { credential: 'none' }),
    madeUp: await ask(path, { credential: 'made-up' }),
  });
  return {
    current: await pair(asker.current, REPOSITORIES_PATH),
    v1: asksV1 ? await pair(asker.v1, WORKBOOKS_PATH) : null,
  };
}

/** What the answers mean; null where they were not asked for. */
export function readCredentials(seen: CredentialsSeen | null): Finding[] {
  const find = findingsOf('Credentials');
  if (seen === null) {
    return [
      find(
        'credentials',
        'how is a wrong or missing key answered?',
        'not asked',
        'with --with-wrong-key it is, once each; some installations lock people out',
      ),
    ];
  }
  const rows = [
    ['current', 'the current API', seen.current] as const,
    ...(seen.v1 === null ? [] : [['v1', 'v1', seen.v1] as const]),
  ];
  return rows.flatMap(([id, name, { none, madeUp }]) => [
    find(`credentials.${id}.none`, `no credential for ${name}`, shapeOf(none), meaningOf(none)),
    find(`credentials.${id}.wrong`, `a made-up credential for ${name}`, shapeOf(madeUp), meaningOf(madeUp)),
  ]);
}

function meaningOf({ status }: ProbeAnswer): string {
  if (status === 401) return 'the mirror sees that its key is refused, and does not send it on and on';
  if (status === 403) return 'the mirror takes it for a key that may not do this';
  if (status === 404) return 'a key that is refused looks like an address that is wrong: check both';
  if (status >= 300 && status < 400) return 'a redirect, as to a login page: the mirror does not follow it';
  if (status >= 200 && status < 300)
    return 'the service answers without a valid key: please report this to its operator';
  return 'the mirror takes it for a failure and tries again';
}
