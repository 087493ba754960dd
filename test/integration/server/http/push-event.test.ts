import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { fixedKey, type KnownKey } from '../../../../src/server/keys/keys.ts';
import type { Changes } from '../../../../src/server/git/library.ts';
import type { Library, Repository } from '../../../../src/server/http/library.ts';
import { createService } from '../../../../src/server/http/service.ts';

const SECRET = 'wbs_for-signed-webhooks';
const KEYS: readonly KnownKey[] = [
  fixedKey('personal', 'Anna', 'wbp_p'),
  { ...fixedKey('group', 'forge', 'wbg_g'), signingSecret: SECRET },
  fixedKey('token', 'Anna', 'wbt_t'),
];
const BY_KEY = { 'x-api-key': 'wbg_g' };

function repository(id: string, url: string | null, name: string): Repository {
  return { id, name, full_name: url?.replace(/^\w+:\/\//, '') ?? name, url, created_at: null };
}

const REPOSITORIES = [
  repository('1', null, 'Accounting'),
  repository('2', 'https://github.com/org/plan.git', 'plan'),
  repository('3', 'https://gitlab.example.com:8443/group/sub/plan.git', 'plan'),
  repository('4', 'http://git.example.com:3000/org/plan.git', 'plan'),
];

function unused(): never {
  throw new Error('a webhook does not ask for this');
}

/** A service that records which repositories it must fetch. */
async function startService(isReplica = false): Promise<{ url: string; fetched: string[] }> {
  const fetched: string[] = [];
  const library: Library = {
    repositories: () => Promise.resolve(REPOSITORIES),
    content: unused,
    workbooks: unused,
  };
  const changes: Pick<Changes, 'fetchSoon'> = {
    fetchSoon: (id) => {
      if (id === '1') return false;
      fetched.push(id);
      return true;
    },
  };
  const service = createService({
    library,
    changes: isReplica ? null : (changes as Changes),
    keys: () => Promise.resolve(KEYS),
  });
  onTestFinished(() => service.close());
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  return { url: `${baseUrl}/webhooks/push`, fetched };
}

async function post(url: string, headers: Record<string, string>, payload: string | object) {
  const isText = typeof payload === 'string' || Buffer.isBuffer(payload);
  const body = isText ? payload : JSON.stringify(payload);
  const all = { 'content-type': 'application/json', ...headers };
  const answer = await fetch(url, { method: 'POST', headers: all, body });
  expect(answer.headers.get('content-type')).toBe('application/json');
  return { status: answer.status, body: await answer.json() };
}

function refused(status: number, code: string): unknown {
  return { status, body: { error: { code, message: expect.any(String) as string } } };
}

function sign(text: string): string {
  return createHmac('sha256', SECRET).update(text).digest('hex');
}

/** The fields of push events that name the repository, as these systems send them. */
const GITHUB_PUSH = {
  ref: 'refs/heads/main',
  repository: {
    name: 'plan',
    html_url: 'https://github.com/org/plan',
    clone_url: 'https://github.com/org/plan.git',
  },
};
const GITLAB_PUSH = {
  object_kind: 'push',
  project: { web_url: 'https://gitlab.example.com:8443/group/sub/plan' },
  repository: { name: 'plan', homepage: 'https://gitlab.example.com:8443/group/sub/plan' },
};
const GITEA_PUSH = { repository: { clone_url: 'http://git.example.com:3000/org/plan.git' } };

describe('an incoming webhook', () => {
  it('has the repository fetched, with a key or a signature as each system sends it', async () => {
    const { url, fetched } = await startService();
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const githubForm = `payload=${encodeURIComponent(JSON.stringify(GITHUB_PUSH))}`;
    const signed = (body: string): Record<string, string> => ({
      'x-hub-signature-256': `sha256=${sign(body)}`,
      // As a proxy on the way may ask for.
      authorization: 'Basic cHJveHk6cGFzcw==',
    });
    const cases: ReadonlyArray<readonly [string, Record<string, string>, string | object]> = [
      ['2', signed(JSON.stringify(GITHUB_PUSH)), GITHUB_PUSH],
      ['2', { ...signed(githubForm), ...form }, githubForm],
      ['3', { 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': 'wbg_g' }, GITLAB_PUSH],
      ['4', signed(JSON.stringify(GITEA_PUSH)), GITEA_PUSH],
      ['2', { authorization: 'Bearer wbg_g' }, { url: 'https://anna:pass@GitHub.com/org/plan' }],
      ['2', BY_KEY, { url: 'git@github.com:org/plan.git' }],
      ['2', { ...BY_KEY, ...form }, '{"url": "github.com/org/plan.git/"}'],
      ['3', BY_KEY, { repository: '3' }],
      ['4', BY_KEY, { repository: 'git.example.com:3000/org/plan.git' }],
    ];
    for (const [id, headers, body] of cases) {
      fetched.length = 0;
      const fullName = REPOSITORIES.find((each) => each.id === id)?.full_name;
      expect(await post(url, headers, body)).toEqual({ status: 202, body: { fetching: [fullName] } });
      expect(fetched).toEqual([id]);
    }
  });

  it('is refused without a group key, and fetches nothing', async () => {
    const { url, fetched } = await startService();
    const body = JSON.stringify(GITHUB_PUSH);
    const unauthorized = refused(401, 'unauthorized');
    for (const headers of [
      {},
      { 'x-api-key': 'wbg_x' },
      { 'x-gitlab-token': SECRET },
      { 'x-hub-signature-256': sign(body) },
      { 'x-hub-signature-256': `sha256=${sign(`${body} `)}` },
      { 'x-hub-signature-256': `sha256=${createHmac('sha256', 'wbg_g').update(body).digest('hex')}` },
    ])
      expect(await post(url, headers as Record<string, string>, body)).toEqual(unauthorized);
    expect(await post(`${url}?key=wbg_g`, {}, body)).toEqual(unauthorized);
    // The sender is checked before the form of the body.
    expect(await post(url, { 'x-hub-signature-256': `sha256=${sign('x')}` }, 'no JSON')).toEqual(
      unauthorized,
    );
    for (const key of ['wbp_p', 'wbt_t'])
      expect(await post(url, { 'x-api-key': key }, body)).toEqual(refused(403, 'not_a_group_key'));
    expect(fetched).toEqual([]);
  });

  it('is refused if its body names no repository to fetch', async () => {
    const { url, fetched } = await startService();
    const cases: ReadonlyArray<readonly [number, string, string | object]> = [
      [400, 'invalid', 'no JSON'],
      [400, 'invalid', '[]'],
      [400, 'invalid', 'payload=%7B'],
      [400, 'invalid', Buffer.from('{"repository":"Größe"}', 'latin1')],
      [400, 'invalid', { repository: { url: 7 } }],
      [404, 'repository_not_found', { url: 'https://github.com/org/other.git' }],
      [404, 'repository_not_found', { repository: 'accounting' }],
      [409, 'not_external', { repository: 'Accounting' }],
      [409, 'ambiguous', { repository: 'plan' }],
    ];
    for (const [status, code, body] of cases)
      expect(await post(url, BY_KEY, body)).toEqual(refused(status, code));
    const { body } = await post(url, BY_KEY, { url: 'https://anna:s3cret@github.com/org/other.git' });
    expect(JSON.stringify(body)).toContain('github.com/org/other');
    expect(JSON.stringify(body)).not.toContain('s3cret');
    expect(fetched).toEqual([]);
  });

  it('is refused by a replica, but not before its key is checked', async () => {
    const { url } = await startService(true);
    expect(await post(url, BY_KEY, GITHUB_PUSH)).toEqual(refused(403, 'read_only'));
    expect(await post(url, {}, GITHUB_PUSH)).toEqual(refused(401, 'unauthorized'));
  });

  it('may have a body of 1 MiB', async () => {
    const { url } = await startService();
    const fill = (sizeBytes: number): string => {
      const frame = JSON.stringify({ url: 'github.com/org/plan.git', fill: '' }).length;
      return JSON.stringify({ url: 'github.com/org/plan.git', fill: 'x'.repeat(sizeBytes - frame) });
    };
    expect(await post(url, BY_KEY, fill(1024 ** 2))).toMatchObject({ status: 202 });
    expect(await post(url, BY_KEY, fill(1024 ** 2 + 1))).toEqual(refused(413, 'too_large'));
  });

  it('is answered before its body arrives if it has neither key nor signature', async () => {
    const { port, pathname } = new URL((await startService()).url);
    const socket = connect(Number(port), '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write(`POST ${pathname} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('accepts only POST', async () => {
    const { url } = await startService();
    const answer = await fetch(url, { headers: BY_KEY });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
  });
});
