import { randomBytes } from 'node:crypto';

import { isObject, type JsonObject } from '../../src/probe/words.ts';
import type { Reply } from './http.ts';
import { externalNamesFault, repositoryFault } from './repositories.ts';
import { jsonOf, type Subject } from './subject.ts';
import { given, holds, NotMet } from './verdict.ts';
import type { Statement } from './statement.ts';

/** What the specification says of creating repositories (section 4.1); what is created stays. */

function post(subject: Subject, body: string, more: Record<string, string> = {}): Promise<Reply> {
  return subject.current('/repos', { method: 'POST', body, headers: more });
}

/** Gives the repository of an answer. @throws NotMet unless it is one */
function created({ status, headers, body }: Reply): JsonObject {
  holds(status >= 200 && status < 300, `status ${status}`);
  const value = jsonOf({ status: 200, headers, body });
  const fault = repositoryFault(value);
  holds(isObject(value) && fault === null, `the answer is no repository: ${fault ?? ''}`);
  return value;
}

async function listNow(subject: Subject): Promise<readonly JsonObject[]> {
  const value = jsonOf(await subject.current('/repos'));
  if (!Array.isArray(value)) throw new NotMet('the list of repositories is no array');
  return value.filter(isObject);
}

function isSameRow(one: JsonObject | undefined, other: JsonObject): boolean {
  return ['id', 'name', 'full_name', 'url', 'created_at'].every((field) => one?.[field] === other[field]);
}

/** @throws NotMet when a request that is not valid creates something, or is answered with success */
async function createsNothing(subject: Subject, body: string): Promise<string> {
  const before = await listNow(subject);
  const { status } = await post(subject, body);
  const after = await listNow(subject);
  holds(after.length <= before.length, 'there is a repository more');
  holds(status >= 400 && status < 500, `status ${status}`);
  return `status ${status}`;
}

/** Names nothing that exists. */
function newName(): string {
  return `conformance-${randomBytes(6).toString('hex')}`;
}

export const CREATION_STATEMENTS: readonly Statement[] = [
  {
    id: 'create-by-name',
    section: '4.1',
    statement: 'POST /repos with a name gives a drag-and-drop repository of that name, which is then listed',
    kind: 'required',
    needs: ['writes'],
    check: async (subject) => {
      const name = newName();
      const reply = await post(subject, JSON.stringify({ name }));
      const row = created(reply);
      holds(row['name'] === name && row['full_name'] === name, 'name or full_name is another');
      holds(row['url'] === null, 'url is not null');
      const listed = (await listNow(subject)).find(({ id }) => id === row['id']);
      holds(isSameRow(listed, row), 'the list has it otherwise, or not at all');
      return `status ${reply.status}`;
    },
  },
  {
    id: 'create-same-name',
    section: '4.1',
    statement: 'the answer to a name that is taken: two repositories of one full_name there are never',
    kind: 'optional',
    needs: ['writes'],
    check: async (subject) => {
      const name = newName();
      created(await post(subject, JSON.stringify({ name })));
      const { status } = await post(subject, JSON.stringify({ name }));
      const same = (await listNow(subject)).filter((row) => row['full_name'] === name);
      holds(same.length === 1, `${same.length} repositories have one full_name`);
      return `status ${status}`;
    },
  },
  {
    id: 'create-by-address',
    section: '4.1',
    statement:
      'POST /repos with url, username and password gives a repository of that address, which is then listed',
    kind: 'required',
    needs: ['writes', 'external-url'],
    check: async (subject) => {
      const url = subject.options.externalUrl ?? '';
      const isThere = (await listNow(subject)).some((row) => row['url'] === url);
      given(!isThere, 'the address is connected already');
      const reply = await post(subject, JSON.stringify({ url, ...subject.options.externalCredential }));
      const row = created(reply);
      holds(row['url'] === url, 'url is not as submitted');
      if (url.startsWith('https:')) {
        const fault = externalNamesFault(row);
        holds(fault === null, fault ?? '');
      }
      const listed = (await listNow(subject)).find(({ id }) => id === row['id']);
      holds(isSameRow(listed, row), 'the list has it otherwise, or not at all');
      return `status ${reply.status}`;
    },
  },
  {
    id: 'create-hides-password',
    section: '4.1',
    statement: 'a password that is sent with an address is never given back',
    kind: 'optional',
    needs: ['writes'],
    check: async (subject) => {
      const password = randomBytes(9).toString('hex');
      const url = `https://host.invalid/${newName()}.git`;
      const reply = await post(subject, JSON.stringify({ url, username: 'someone', password }));
      holds(!reply.body.includes(password), 'the answer holds it');
      const list = await subject.current('/repos');
      holds(!list.body.includes(password), 'the list of repositories holds it');
      return `status ${reply.status}`;
    },
  },
  ...[
    ['create-nothing', 'an object of neither shape', '{}'],
    ['create-no-text', 'a name that is no string', '{"name":7}'],
    ['create-empty-name', 'an empty name', '{"name":""}'],
    ['create-no-json', 'a body that is no JSON', '{"name":'],
  ].map(([id = '', what = '', body = '']): Statement => ({
    id,
    section: '7',
    statement: `${what} is refused and creates nothing`,
    kind: 'optional',
    needs: ['writes'],
    check: (subject) => createsNothing(subject, body),
  })),
  {
    id: 'create-needs-key',
    section: '5.1',
    statement: 'POST /repos is refused without a key, and creates nothing',
    kind: 'required',
    needs: ['writes'],
    check: async (subject) => {
      const name = newName();
      const headers = { accept: 'application/json', 'content-type': 'application/json' };
      const { status } = await subject.send('/repos', {
        method: 'POST',
        body: JSON.stringify({ name }),
        headers,
      });
      holds(status >= 400 && status < 500, `status ${status}`);
      holds(!(await listNow(subject)).some((row) => row['name'] === name), 'it was created');
      return `status ${status}`;
    },
  },
  {
    id: 'create-group-key-refused',
    section: '5.1',
    statement: 'POST /repos is refused for a group key',
    kind: 'required',
    needs: ['writes', 'group-key'],
    check: async (subject) => {
      const more = { 'x-api-key': subject.options.groupKey ?? '' };
      const { status } = await post(subject, JSON.stringify({ name: newName() }), more);
      holds(status >= 400 && status < 500, `status ${status}`);
      return `status ${status}`;
    },
  },
];
