import { describe, expect, it } from 'vitest';

import { type PollAccess, replyToPoll } from '../../../../src/daemon/web/poll-requests.ts';

const TOKEN = 'a-token';
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };

/** The status of a reply, and whether a pass was asked for. */
function answered(
  access: Partial<PollAccess>,
  method: string,
  headers: Readonly<Record<string, string>> = {},
): { readonly status: number; readonly isAsked: boolean } {
  let isAsked = false;
  const ask = (): void => {
    isAsked = true;
  };
  const { status } = replyToPoll({ token: () => TOKEN, ask, ...access }, { method, headers });
  return { status, isAsked };
}

describe('a request for a pass', () => {
  it('is accepted with the token, as a bearer or as a password', () => {
    const basic = { authorization: `Basic ${Buffer.from(`ci:${TOKEN}`).toString('base64')}` };
    for (const headers of [AUTHORIZED, basic])
      expect(answered({}, 'POST', headers)).toEqual({ status: 202, isAsked: true });
  });

  it.each([
    ['nothing that is there without a token in the settings', { token: () => null }, 'POST', AUTHORIZED, 404],
    ['refused without a token', {}, 'POST', {}, 401],
    ['refused with another one', {}, 'POST', { authorization: 'Bearer other' }, 401],
    ['no page to look at', {}, 'GET', AUTHORIZED, 405],
    ['refused to pages of other sites', {}, 'POST', { ...AUTHORIZED, 'sec-fetch-site': 'cross-site' }, 403],
    ['put off by an instance that stands by', { ask: null }, 'POST', AUTHORIZED, 503],
  ] as const)('is %s', (_what, access, method, headers, status) => {
    expect(answered(access, method, headers)).toEqual({ status, isAsked: false });
  });
});
