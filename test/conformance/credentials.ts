import { requestHeaders } from '../../src/lib/api/requests.ts';
import { jsonOf, type Subject } from './subject.ts';
import { holds } from './verdict.ts';
import type { Statement } from './statement.ts';

/** What the specification says of credentials and headers (sections 5 and 9). */

const MADE_UP = 'made-up-key-0d7c1f36';
const JSON_HEADERS = { accept: 'application/json', 'content-type': 'application/json' };

/** @throws NotMet unless the answer refuses; which status does so is not shown */
async function refused(subject: Subject, target: string, headers: Record<string, string>): Promise<string> {
  const { status } = await subject.send(target, { headers: { ...JSON_HEADERS, ...headers } });
  holds(status >= 400 && status < 500, `status ${status}`);
  return `status ${status}`;
}

export const CREDENTIAL_STATEMENTS: readonly Statement[] = [
  {
    id: 'key-needed',
    section: '5.1',
    statement: 'the current API refuses a request without X-API-KEY',
    kind: 'required',
    check: (subject) => refused(subject, '/repos', {}),
  },
  {
    id: 'key-unknown',
    section: '5.1',
    statement: 'the current API refuses a key that does not exist',
    kind: 'required',
    check: (subject) => refused(subject, '/repos', { 'x-api-key': MADE_UP }),
  },
  {
    id: 'key-needed-for-contents',
    section: '5.1',
    statement: 'contents are refused without X-API-KEY',
    kind: 'required',
    check: async (subject) => {
      const [repository] = await subject.known();
      return refused(subject, `/repos/${encodeURIComponent(repository?.id ?? 'x')}/contents`, {});
    },
  },
  {
    id: 'key-of-v1-refused',
    section: '9',
    statement: 'the current API refuses the token of v1',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const token = subject.options.apiToken ?? '';
      if (token === subject.options.apiKey) return 'key and token are one and the same text';
      await refused(subject, '/repos', { authorization: token });
      return refused(subject, '/repos', { 'x-api-key': token });
    },
  },
  {
    id: 'key-group-refused',
    section: '5.1',
    statement: 'a group key is refused for everything but incoming webhooks',
    kind: 'required',
    needs: ['group-key'],
    check: (subject) => refused(subject, '/repos', { 'x-api-key': subject.options.groupKey ?? '' }),
  },
  {
    id: 'token-needed',
    section: '5.2',
    statement: 'v1 refuses a request without Authorization',
    kind: 'required',
    needs: ['token'],
    check: (subject) => refused(subject, '/v1/workbooks', {}),
  },
  {
    id: 'token-unknown',
    section: '5.2',
    statement: 'v1 refuses a token that does not exist',
    kind: 'required',
    needs: ['token'],
    check: (subject) => refused(subject, '/v1/workbooks', { authorization: MADE_UP }),
  },
  {
    id: 'token-of-current-refused',
    section: '9',
    statement: 'v1 refuses the key of the current API',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const { apiKey, apiToken } = subject.options;
      if (apiKey === apiToken) return 'key and token are one and the same text';
      await refused(subject, '/v1/workbooks', { 'x-api-key': apiKey });
      return refused(subject, '/v1/workbooks', { authorization: apiKey });
    },
  },
  {
    id: 'headers-without-body',
    section: '5.1',
    statement: 'a GET that carries Content-Type and no body is answered (all of these requests do)',
    kind: 'required',
    check: async (subject) => {
      jsonOf(await subject.current('/repos'));
      return 'status 200';
    },
  },
  {
    id: 'header-case',
    section: 'RFC 9110, 5.1',
    statement: 'the names of headers are read without case: `X-API-KEY` and `x-api-key` are one',
    kind: 'required',
    check: async (subject) => {
      const headers = { 'X-API-KEY': subject.options.apiKey, ...JSON_HEADERS };
      jsonOf(await subject.send('/repos', { headers }));
      return 'both';
    },
  },
  {
    id: 'headers-left-out',
    section: '5.1',
    statement: 'the answer to a request with the key alone, without Accept and Content-Type',
    kind: 'observed',
    check: async (subject) => {
      const headers = { 'x-api-key': requestHeaders('current', subject.options.apiKey)['x-api-key'] ?? '' };
      return `status ${(await subject.send('/repos', { headers })).status}`;
    },
  },
];
