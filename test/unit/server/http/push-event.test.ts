import { createHmac } from 'node:crypto';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { comparableAddress, findMeant } from '../../../../src/server/http/repository-reference.ts';
import { fixedKey, type KnownKey } from '../../../../src/server/http/keys.ts';
import type { Repository } from '../../../../src/server/http/library.ts';
import { payloadOfForm, readPushEvent, unwrapPayload } from '../../../../src/server/http/push-payload.ts';
import {
  canBeSigned,
  carriesGroupKey,
  carriesSignature,
  unauthorizedWebhook,
  webhookCredentials,
} from '../../../../src/server/http/webhook-auth.ts';
import {
  GITEA_PUSH,
  giteaEvent,
  GITHUB_CREATE,
  GITHUB_PING,
  GITHUB_PUSH,
  GITLAB_PUSH,
  GITLAB_SYSTEM,
} from '../../../support/push-payloads.ts';

const SECRET = "It's a Secret to Everybody";
const GROUP: KnownKey = { ...fixedKey('group', 'forge', 'wbg_g'), signingSecret: SECRET };
const KEYS = [fixedKey('personal', 'Anna', 'wbp_p'), GROUP, fixedKey('token', 'Anna', 'wbt_t')];
const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';

function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

function sign(secret: string, text: string): string {
  return createHmac('sha256', secret).update(text).digest('hex');
}

function refusal(call: () => unknown): Error | null {
  try {
    call();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error('it threw no error');
  }
}

describe('the key of a webhook', () => {
  it('is taken from each header that senders have', () => {
    for (const headers of [
      { 'x-api-key': 'wbg_g' },
      { 'x-gitlab-token': 'wbg_g' },
      { authorization: 'Bearer wbg_g' },
      { authorization: 'bearer  wbg_g' },
      { authorization: 'token wbg_g' },
      { authorization: 'wbg_g' },
      { authorization: basic('anybody', 'wbg_g') },
      { authorization: basic('', 'wbg_g') },
      { authorization: basic('proxy', 'x'), 'x-gitlab-token': 'wbg_g' },
      { authorization: 'Digest x', 'x-api-key': 'wbg_g' },
    ])
      expect(carriesGroupKey(webhookCredentials(headers), KEYS)).toBe(true);
  });

  it('is no key when it is another text', () => {
    for (const headers of [
      {},
      { 'x-api-key': '' },
      { 'x-api-key': 'wbg_' },
      { 'x-api-key': 'wbg_g ' },
      { 'x-gitlab-token': SECRET },
      { authorization: basic('wbg_g', '') },
      { authorization: basic('wbg_g', 'x') },
      { authorization: 'Basic' },
      { authorization: 'Basic !!' },
      { 'x-hub-signature-256': 'wbg_g' },
      { 'x-github-token': 'wbg_g' },
    ])
      expect(carriesGroupKey(webhookCredentials(headers), KEYS)).toBe(false);
  });

  it('is refused when it is for something else', () => {
    for (const key of ['wbp_p', 'wbt_t'])
      for (const headers of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }])
        expect(refusal(() => carriesGroupKey(webhookCredentials(headers), KEYS))).toMatchObject({
          status: 403,
          code: 'not_a_group_key',
        });
  });

  it('is asked for in words that say what went wrong, and repeat nothing', () => {
    const messageFor = (headers: Record<string, string>): string =>
      unauthorizedWebhook(webhookCredentials(headers)).message;
    expect(messageFor({})).toMatch(/^the group key is missing/);
    expect(messageFor({ 'x-api-key': 'abcdef' })).toMatch(/^the group key is not valid/);
    expect(messageFor({ 'x-api-key': 'abcdef' })).not.toContain('abcdef');
    const signature = sign('x', 'y');
    expect(messageFor({ 'x-gitea-signature': signature })).toMatch(/^the signature fits none/);
    expect(messageFor({ 'x-gitea-signature': signature })).not.toContain(signature);
  });
});

describe('the signature of a webhook', () => {
  const check = (headers: Record<string, string>, text: string, keys = KEYS): Promise<boolean> =>
    carriesSignature(webhookCredentials(headers), keys, Buffer.from(text));

  it('is the one of the example in the documentation of GitHub', async () => {
    const signature = '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17';
    expect(await check({ 'x-hub-signature-256': `sha256=${signature}` }, 'Hello, World!')).toBe(true);
    expect(await check({ 'x-hub-signature-256': `sha256=${signature.toUpperCase()}` }, 'Hello, World!')).toBe(
      true,
    );
    expect(await check({ 'x-gitea-signature': signature }, 'Hello, World!')).toBe(true);
    expect(await check({ 'x-gitea-signature': signature }, 'Hello, World')).toBe(false);
  });

  it('is none without a secret, or with one of another kind of key', async () => {
    const headers = { 'x-gitea-signature': sign(SECRET, 'x') };
    expect(await check(headers, 'x', [])).toBe(false);
    expect(await check(headers, 'x', [fixedKey('group', 'g', 'wbg_g')])).toBe(false);
    expect(await check(headers, 'x', [{ ...GROUP, kind: 'personal' }])).toBe(false);
    expect(await check({ 'x-gitea-signature': sign('wbg_g', 'x') }, 'x')).toBe(false);
    expect(await check({ 'x-gitea-signature': sign('', 'x') }, 'x')).toBe(false);
  });

  it('keeps nobody else waiting while it is checked, however much was sent and however many secrets there are', async () => {
    const keys = Array.from({ length: 4 }, (_, index) => ({ ...GROUP, signingSecret: `${SECRET}${index}` }));
    const headers = { 'x-gitea-signature': sign(SECRET, 'x') };
    let turns = 0;
    const others = (): void => {
      turns += 1;
      waiting = setImmediate(others);
    };
    let waiting = setImmediate(others);
    expect(await check(headers, 'x'.repeat(8 * 1024 * 1024), keys)).toBe(false);
    clearImmediate(waiting);
    expect(turns).toBeGreaterThanOrEqual(4 * 8);
    const gone = carriesSignature(webhookCredentials(headers), keys, Buffer.from('x'), AbortSignal.abort());
    await expect(gone).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('can be right only where there is a secret to sign with', () => {
    const signed = webhookCredentials({ 'x-gitea-signature': sign(SECRET, 'x') });
    expect(canBeSigned(signed, KEYS)).toBe(true);
    expect(canBeSigned(signed, [fixedKey('group', 'g', 'wbg_g')])).toBe(false);
    expect(canBeSigned(signed, [{ ...GROUP, kind: 'personal' }])).toBe(false);
    expect(canBeSigned(webhookCredentials({ 'x-api-key': 'wbg_g' }), KEYS)).toBe(false);
  });

  it('is not looked at in a form that is none', () => {
    const right = sign(SECRET, 'x');
    for (const value of [
      '',
      'sha256=',
      'sha1=abc',
      right.slice(1),
      `${right}0`,
      `sha512=${right}`,
      `${right},x`,
    ]) {
      expect(
        webhookCredentials({ 'x-hub-signature-256': value, 'x-gitea-signature': value }).signatures,
      ).toEqual([]);
    }
  });

  it('fits what was signed, with the secret that signed it, and nothing else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), fc.string(), fc.string({ minLength: 1 }), async (text, other, secret) => {
        const keys = [{ ...GROUP, signingSecret: secret }];
        const headers = { 'x-hub-signature-256': `sha256=${sign(secret, text)}` };
        expect(await check(headers, text, keys)).toBe(true);
        expect(await check(headers, other, keys)).toBe(other === text);
      }),
    );
  });
});

describe('the body of a webhook', () => {
  const unwrap = (type: string | undefined, text: string): ReturnType<typeof unwrapPayload> =>
    unwrapPayload(type, Buffer.from(text));

  it('is JSON, whatever the content type says', () => {
    for (const type of [JSON_TYPE, undefined, 'text/plain', FORM_TYPE, `${FORM_TYPE}; charset=utf-8`])
      expect(unwrap(type, ' {"url":"x"}')).toEqual({ url: 'x' });
  });

  it('is JSON in a form', () => {
    for (const type of [FORM_TYPE, `${FORM_TYPE};charset=UTF-8`, FORM_TYPE.toUpperCase()])
      expect(unwrap(type, 'payload=%7B%22url%22%3A+%22x%22%7D')).toEqual({ url: 'x' });
  });

  it('is a plain form', () => {
    const url = 'https://github.com/org/plan.git';
    expect(readPushEvent({}, unwrap(FORM_TYPE, `url=${encodeURIComponent(url)}`))).toEqual({
      kind: 'push',
      references: [url],
    });
    expect(readPushEvent({}, unwrap(FORM_TYPE, 'repository=plan&__proto__=x'))).toEqual({
      kind: 'push',
      references: ['plan'],
    });
  });
});

describe('a form', () => {
  const form = (text: string): string | null => payloadOfForm(FORM_TYPE, Buffer.from(text));

  it('gives the field that is asked for, as a parser of forms does', () => {
    const fields = fc.array(
      fc.tuple(fc.constantFrom('payload', 'a', 'payload2', 'xpayload', ''), fc.string({ maxLength: 5 })),
    );
    fc.assert(
      fc.property(fields, (pairs) => {
        const text = `_=&${new URLSearchParams(pairs).toString()}`;
        expect(form(text)).toBe(new URLSearchParams(text).get('payload'));
      }),
    );
    expect(form('payload=a&payload=b')).toBe('a');
    expect(payloadOfForm(JSON_TYPE, Buffer.from('payload=a'))).toBeNull();
  });

  it('costs no more for its many fields, wherever the one stands that is asked for', () => {
    const many = (count: number, field: (index: number) => string): string =>
      Array.from({ length: count }, (_, index) => field(index)).join('&');
    const distinct = many(2_000_000, (index) => `f${index}=`);
    expect(form(distinct)).toBeNull();
    expect(form(`${distinct}&payload=x`)).toBe('x');
    expect(form(many(2_000_000, () => 'xpayload='))).toBeNull();
    expect(form('&'.repeat(25 * 1024 * 1024))).toBeNull();
    const fields = Buffer.from(`url=u&${many(5000, (index) => `f${index}=`)}`);
    expect(unwrapPayload(FORM_TYPE, fields)).toEqual({ url: 'u' });
  });

  it('may be large only where it holds a payload', () => {
    const large = `url=${'x'.repeat(64 * 1024)}`;
    expect(refusal(() => unwrapPayload(FORM_TYPE, Buffer.from(large)))).toMatchObject({ status: 413 });
    expect(unwrapPayload(FORM_TYPE, Buffer.from(`${large}&payload={}`))).toEqual({});
  });
});

describe('what a webhook tells of', () => {
  const read = (headers: Record<string, string>, payload: unknown): ReturnType<typeof readPushEvent> =>
    readPushEvent(headers, unwrapPayload(JSON_TYPE, Buffer.from(JSON.stringify(payload))));

  it('is a push of each system, with every address of the repository', () => {
    const github = [
      'https://github.com/Org/plan.git',
      'https://github.com/Org/plan',
      'git://github.com/Org/plan.git',
    ];
    const gitlab = [
      'https://gitlab.example.com:8443/group/sub/plan.git',
      'https://gitlab.example.com:8443/group/sub/plan',
    ];
    const gitea = ['http://git.example.com:3000/org/plan.git', 'http://git.example.com:3000/org/plan'];
    const cases: ReadonlyArray<readonly [Record<string, string>, unknown, readonly string[]]> = [
      [{ 'x-github-event': 'push' }, GITHUB_PUSH, github],
      [{ 'x-github-event': 'push' }, { ...GITHUB_PUSH, deleted: true }, github],
      [{ 'x-github-event': 'create' }, GITHUB_CREATE, github],
      [{ 'x-github-event': 'delete' }, GITHUB_CREATE, github],
      [{ 'x-gitlab-event': 'Push Hook' }, GITLAB_PUSH, gitlab],
      [{ 'x-gitlab-event': 'Tag Push Hook' }, { ...GITLAB_PUSH, object_kind: 'tag_push' }, gitlab],
      [{ 'x-gitlab-event': 'System Hook' }, GITLAB_SYSTEM, gitlab],
      [{ 'x-gitlab-event': 'System Hook' }, GITLAB_PUSH, gitlab],
      [giteaEvent('push'), GITEA_PUSH, gitea],
      [{ ...giteaEvent('create'), 'x-forgejo-event': 'create' }, GITEA_PUSH, gitea],
      [{}, GITEA_PUSH, gitea],
      [{}, { url: 'https://github.com/org/plan.git' }, ['https://github.com/org/plan.git']],
      [{}, { repository: 'Accounting' }, ['Accounting']],
      [{}, { url: 'a', repository: 'b' }, ['a', 'b']],
      [{ 'x-github-event': '' }, { url: 'a' }, ['a']],
    ];
    for (const [headers, payload, references] of cases)
      expect(read(headers, payload)).toEqual({ kind: 'push', references });
  });

  it('is nothing to do for any other event, and is said so', () => {
    const cases: ReadonlyArray<readonly [Record<string, string>, unknown, string, RegExp]> = [
      [{ 'x-github-event': 'ping' }, GITHUB_PING, 'ping', /works/],
      [{ 'x-github-event': 'ping' }, {}, 'ping', /works/],
      [{ 'x-github-event': 'issues' }, GITHUB_PUSH, 'issues', /only pushes/],
      [{ 'x-github-event': 'repository' }, GITHUB_PUSH, 'repository', /only pushes/],
      [{ 'x-gitlab-event': 'Merge Request Hook' }, GITLAB_PUSH, 'Merge Request Hook', /only pushes/],
      [{ 'x-gitlab-event': 'System Hook' }, { event_name: 'user_create' }, 'System Hook', /only pushes/],
      [{ 'x-gitlab-event': 'System Hook' }, {}, 'System Hook', /only pushes/],
      [giteaEvent('pull_request'), GITEA_PUSH, 'pull_request', /only pushes/],
      [{ ...giteaEvent('push'), 'x-forgejo-event': 'wiki' }, GITEA_PUSH, 'wiki', /only pushes/],
    ];
    for (const [headers, payload, event, reason] of cases)
      expect(read(headers, payload)).toEqual({
        kind: 'ignored',
        event,
        reason: expect.stringMatching(reason) as string,
      });
  });

  it('cannot be told when it names no repository', () => {
    for (const payload of [
      {},
      { url: '' },
      { url: 1 },
      { repository: null },
      { repository: {} },
      { repository: { full_name: 'Org/plan', ssh_url: 'git@github.com:Org/plan.git' } },
      { repository: [], project: 'x' },
    ])
      expect(refusal(() => read({}, payload))).toMatchObject({ status: 400, code: 'invalid' });
  });

  it('cannot be told of what is no object in JSON', () => {
    for (const text of ['', 'x', '{', '[]', 'null', '1', '"x"', '\u0000'])
      for (const type of [JSON_TYPE, FORM_TYPE])
        expect(
          refusal(() => readPushEvent({ 'x-github-event': 'push' }, unwrapPayload(type, Buffer.from(text)))),
        ).toMatchObject({ status: 400, code: 'invalid' });
    expect(
      refusal(() => readPushEvent({}, unwrapPayload(FORM_TYPE, Buffer.from('payload=x&url=y')))),
    ).toMatchObject({ status: 400 });
  });

  it('is a push, nothing to do, or refused, whatever is sent', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('push', 'ping', 'System Hook', 'x', ''),
        fc.constantFrom(JSON_TYPE, FORM_TYPE),
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((json) => `payload=${encodeURIComponent(json)}`),
        ),
        (event, type, text) => {
          const headers = { 'x-github-event': event };
          const error = refusal(() => readPushEvent(headers, unwrapPayload(type, Buffer.from(text))));
          if (error !== null) expect(error).toMatchObject({ name: 'RequestError', status: 400 });
        },
      ),
    );
  });
});

describe('the address of a repository', () => {
  it('is the same in every form that it is written in', () => {
    const forms = [
      'https://github.com/org/plan.git',
      'https://github.com/org/plan',
      'https://github.com/org/plan/',
      'https://github.com:443/org/plan.git',
      'HTTPS://GitHub.com/Org/Plan.git',
      'http://github.com/org/plan.git',
      'http://github.com:80/org/plan.git',
      'https://anna:pass@github.com/org/plan.git',
      'https://github.com/org/plan.git?a=b#c',
      'git://github.com/org/plan.git',
      'git://github.com:9418/org/plan.git',
      'ssh://git@github.com/org/plan.git',
      'ssh://git@github.com:22/org/plan.git',
      'git@github.com:org/plan.git',
      'git@github.com:/org/plan.git',
      'github.com/org/plan.git',
      ' https://github.com/org/plan.git\n',
    ];
    for (const form of forms) expect(comparableAddress(form)).toBe('github.com/org/plan');
  });

  it('is another with another host, port or path', () => {
    const others = [
      'https://gitlab.com/org/plan.git',
      'https://github.com:8443/org/plan.git',
      'ssh://git@github.com:2222/org/plan.git',
      'https://github.com/org/plan2.git',
      'https://github.com/plan.git',
      'https://github.com/org/plan.git.git',
      'https://github.com.evil.example/org/plan.git',
      'https://evil.example/github.com/org/plan.git',
      'https://github.com@evil.example/org/plan.git',
      '/github.com/org/plan.git',
    ];
    for (const other of others) expect(comparableAddress(other)).not.toBe('github.com/org/plan');
    expect(comparableAddress('https://[::1]:3000/a/b.git')).toBe('[::1]:3000/a/b');
    expect(comparableAddress('/srv/git/plan.git')).toBe('/srv/git/plan');
    expect(comparableAddress('file:///srv/git/plan.git')).toBe('/srv/git/plan');
  });

  it('is none where there is no path, or no address', () => {
    for (const text of [
      '',
      ' ',
      'https://github.com',
      'https://github.com/',
      'Accounting',
      'Sales Europe',
      '://',
      'a@b',
      `https://a/${'x'.repeat(2048)}`,
    ])
      expect(comparableAddress(text)).toBeNull();
  });

  it('never holds what stands before the host', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('https', 'http', 'ssh', 'git'),
        fc.webUrl(),
        fc.stringMatching(/^[a-z]{20}$/),
        (scheme, url, password) => {
          const withPassword = url.replace(/^\w+:\/\//, `${scheme}://anna:${password}@`);
          expect(comparableAddress(withPassword) ?? '').not.toContain(password);
        },
      ),
    );
  });
});

describe('the repositories that are meant', () => {
  const repository = (id: string, name: string, url: string | null): Repository => ({
    id,
    name,
    full_name: url === null ? name : url.replace(/^https?:\/\//, ''),
    url,
    created_at: null,
  });
  const dropped = repository('1', 'Accounting', null);
  const secure = repository('2', 'plan', 'https://Git.example.com/org/Plan.git');
  const plain = repository('3', 'plan', 'http://git.example.com/org/plan.git');
  const other = repository('4', 'forecast', 'https://git.example.com:8443/org/forecast.git');
  const local = repository('5', 'local', 'file:///srv/git/local.git');
  const all = [dropped, secure, plain, other, local];

  it('are found by name, id and address', () => {
    expect(findMeant(all, '1')).toEqual([dropped]);
    expect(findMeant(all, 'Accounting')).toEqual([dropped]);
    expect(findMeant(all, 'forecast')).toEqual([other]);
    expect(findMeant(all, 'git.example.com:8443/org/forecast.git')).toEqual([other]);
    expect(findMeant(all, 'GIT.EXAMPLE.COM:8443/org/forecast')).toEqual([other]);
    expect(findMeant(all, 'https://git.example.com/org/plan')).toEqual([secure, plain]);
    expect(findMeant(all, '/srv/git/local.git')).toEqual([local]);
  });

  it('are none where nothing fits, and are asked for where a name is that of several', () => {
    for (const reference of [
      '',
      'x',
      'https://git.example.com/org/forecast.git',
      'https://a/b',
      'https://accounting',
    ])
      expect(findMeant(all, reference)).toEqual([]);
    expect(refusal(() => findMeant(all, 'plan'))).toMatchObject({ status: 409, code: 'ambiguous' });
  });
});
