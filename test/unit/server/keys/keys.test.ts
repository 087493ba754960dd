import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { requestLines, showTarget } from '../../../../src/server/start/request-log.ts';
import { describeKeyProblem, temporaryKinds } from '../../../../src/server/start/keys.ts';
import { holds } from '../../../../src/server/keys/key-reader.ts';
import {
  looksLikeKey,
  makeKey,
  parseKeyFile,
  renderKeyFile,
} from '../../../../src/server/keys/stored-key.ts';
import { authorise } from '../../../../src/server/http/auth.ts';
import {
  digestOfKey,
  findKey,
  findKeyOfKind,
  fixedKey,
  KEY_KINDS,
  type KeyKind,
} from '../../../../src/server/http/keys.ts';

const PERSONAL = fixedKey('personal', 'Anna', 'p');
const GROUP = fixedKey('group', 'forge', 'g');
const TOKEN = fixedKey('token', 'Anna', 't');
const ALL = [PERSONAL, GROUP, TOKEN];
const AT = new Date('2026-01-02T03:04:05.678Z');

/** What a call is refused with; null where it is not. */
function refusal(call: () => unknown): Error | null {
  try {
    call();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error('it threw no error');
  }
}

describe('finding a key', () => {
  it('goes by its digest', () => {
    expect(findKey(ALL, 'g')).toBe(GROUP);
    expect(findKey(ALL, 'x')).toBeNull();
    expect(findKey(ALL, '')).toBeNull();
    expect(findKey([], 'p')).toBeNull();
    expect(findKey(ALL, digestOfKey('p'))).toBeNull();
  });

  it('looks at each key of a list once, however often somebody asks', () => {
    let looks = 0;
    const keys = Array.from({ length: 1000 }, (_, index) => ({
      ...fixedKey('personal', 'Anna', `p${index}`),
      get sha256() {
        looks += 1;
        return digestOfKey(`p${index}`);
      },
    }));
    expect(findKey(keys, 'p999')?.sha256).toBe(digestOfKey('p999'));
    looks = 0;
    for (let count = 0; count < 100; count += 1) {
      expect(findKey(keys, 'wrong')).toBeNull();
      expect(refusal(() => authorise('current', { 'x-api-key': 'wrong' }, keys))).not.toBeNull();
    }
    expect(looks).toBe(0);
  });

  it('finds the same text as keys of several kinds', () => {
    const same = KEY_KINDS.map((kind) => fixedKey(kind, kind, 'same'));
    for (const kind of KEY_KINDS) expect(findKeyOfKind(same, kind, 'same')?.kind).toBe(kind);
    expect(authorise('current', { 'x-api-key': 'same' }, same).kind).toBe('personal');
    expect(authorise('v1', { authorization: 'same' }, same).kind).toBe('token');
  });
});

describe('each generation of the API', () => {
  it('takes its own kind of key, and no other', () => {
    const cases: ReadonlyArray<readonly ['current' | 'v1', string, number, string]> = [
      ['current', 'g', 403, 'group_key'],
      ['current', 't', 401, 'unauthorized'],
      ['current', 'x', 401, 'unauthorized'],
      ['current', '', 401, 'unauthorized'],
      ['v1', 'g', 403, 'group_key'],
      ['v1', 'p', 401, 'unauthorized'],
      ['v1', 'x', 401, 'unauthorized'],
      ['v1', '', 401, 'unauthorized'],
    ];
    for (const [generation, sent, status, code] of cases) {
      const headers = generation === 'v1' ? { authorization: sent } : { 'x-api-key': sent };
      expect(refusal(() => authorise(generation, headers, ALL))).toMatchObject({ status, code });
    }
    expect(authorise('current', { 'x-api-key': 'p' }, ALL)).toBe(PERSONAL);
    expect(authorise('v1', { authorization: 't' }, ALL)).toBe(TOKEN);
  });

  it('says what is wrong with a key, and where one is made', () => {
    const said = (generation: 'current' | 'v1', sent: string, keys = ALL): string => {
      const headers = generation === 'v1' ? { authorization: sent } : { 'x-api-key': sent };
      return refusal(() => authorise(generation, headers, keys))?.message ?? '';
    };
    expect(said('current', '')).toMatch(/is missing: .*keys create --kind personal.*Access > API Key/);
    expect(said('current', 'x')).toMatch(/^the API key of the current API is not valid/);
    expect(said('current', 't')).toMatch(/^what was sent is an API token, and not the API key/);
    expect(said('current', 'wbt_gone')).toMatch(/^what was sent is an API token/);
    expect(said('current', 'wbg_gone')).toMatch(/^what was sent is a group key/);
    expect(said('current', 'wbp_gone')).toMatch(/is not valid/);
    expect(said('v1', 'Bearer p')).toMatch(/^what was sent is a personal API key, and not the API token/);
    expect(said('v1', 'wbp_gone')).toMatch(/keys create --kind token.*Organization > Personal API Token/);
    expect(said('v1', 't', [PERSONAL])).toMatch(/switched off here.*keys create --kind token/);
  });

  it('repeats no key in a refusal', () => {
    for (const sent of ['wbp_not-a-key-of-ours', 'another']) {
      const error = refusal(() => authorise('current', { 'x-api-key': sent }, ALL));
      expect(String(error)).not.toContain(sent);
    }
  });

  it('lets nobody in where there is no key at all', () => {
    expect(refusal(() => authorise('current', { 'x-api-key': '' }, []))).toMatchObject({ status: 401 });
    expect(refusal(() => authorise('v1', { authorization: '' }, [PERSONAL, GROUP]))).toMatchObject({
      status: 404,
    });
  });
});

describe('a new key', () => {
  it('is long, of its kind, and kept as its digest alone', () => {
    const beginnings: Record<KeyKind, RegExp> = {
      personal: /^wbp_[\w-]{43}$/,
      group: /^wbg_[\w-]{43}$/,
      token: /^wbt_[\w-]{43}$/,
    };
    for (const kind of KEY_KINDS) {
      const { key, stored } = makeKey(kind, 'Änne Größe', AT);
      expect(key).toMatch(beginnings[kind]);
      expect(looksLikeKey(key)).toBe(true);
      expect(stored).toMatchObject({ kind, name: 'Änne Größe', createdAt: '2026-01-02T03:04:05.678Z' });
      expect(findKey([stored], key)).toBe(stored);
      expect(renderKeyFile(stored)).not.toContain(key.slice(4));
      expect(makeKey(kind, 'Änne Größe', AT).key).not.toBe(key);
    }
  });

  it('has a secret to sign with only for webhooks, which is no key', () => {
    const { key, stored } = makeKey('group', 'forge', AT);
    expect(stored.signingSecret).toMatch(/^wbs_[\w-]{43}$/);
    expect(findKey([stored], stored.signingSecret ?? '')).toBeNull();
    expect(stored.signingSecret).not.toContain(key.slice(4));
    expect(makeKey('personal', 'Anna', AT).stored.signingSecret).toBeNull();
  });

  it('has a name that Git takes for an author', () => {
    for (const name of ['Anna', 'CI 2', 'Änne Größe', '日本', 'a.b@example.com'])
      expect(makeKey('personal', name, AT).stored.name).toBe(name);
    for (const name of [
      '',
      ' ',
      ' Anna',
      'Anna ',
      '<>',
      'a<b',
      'a\nb',
      'a\u0000',
      '...',
      'a\u202eb',
      'x'.repeat(201),
    ])
      expect(refusal(() => makeKey('personal', name, AT))).toMatchObject({ code: 'usage.invalid' });
  });

  it('comes back from its file as it was', () => {
    fc.assert(
      fc.property(fc.constantFrom(...KEY_KINDS), fc.date({ noInvalidDate: true, min: AT }), (kind, date) => {
        fc.pre(date.getUTCFullYear() < 10_000);
        const { stored } = makeKey(kind, 'Anna', date);
        expect(parseKeyFile(stored.id, renderKeyFile(stored))).toEqual(stored);
      }),
    );
  });
});

describe('a file that is no key', () => {
  const { stored } = makeKey('group', 'forge', AT);
  const text = renderKeyFile(stored);
  const change = (fields: object): string => JSON.stringify({ ...(JSON.parse(text) as object), ...fields });

  it('says what is wrong with it', () => {
    const cases: ReadonlyArray<readonly [string, RegExp]> = [
      ['', /not JSON/],
      [text.slice(0, -3), /not JSON/],
      ['[]', /no object/],
      ['null', /no object/],
      [change({ kind: 'admin' }), /^Error: kind cannot/],
      [change({ sha256: '' }), /sha256/],
      [change({ sha256: 'a'.repeat(63) }), /sha256/],
      [change({ name: '' }), /name/],
      [change({ createdAt: 'yesterday' }), /createdAt/],
      [change({ signingSecret: '' }), /signingSecret/],
      [change({ signingSecret: undefined, kind: 1 }), /kind, signingSecret/],
    ];
    for (const [file, reason] of cases)
      expect(String(refusal(() => parseKeyFile('x', file)))).toMatch(reason);
  });

  it('lets out no word of it, however it is cut or changed', () => {
    fc.assert(
      fc.property(fc.nat(text.length), fc.string(), fc.nat(text.length), (from, insert, to) => {
        const damaged = text.slice(0, from) + insert + text.slice(to);
        const error = refusal(() => parseKeyFile('x', damaged));
        fc.pre(error !== null);
        expect(String(error)).toMatch(
          /^Error: (?:it is not JSON|it is no object|(?:(?:kind|name|createdAt|sha256|signingSecret)(?:, )?)+ cannot be right)$/,
        );
      }),
    );
  });

  it('is told of with what removes it', () => {
    const problem = { id: 'a', path: '/s/keys/a.json', reason: 'it is not JSON', isRemovable: true };
    expect(describeKeyProblem(problem)).toBe(
      '/s/keys/a.json is not a key: it is not JSON; it lets nobody in; `keys revoke a` removes it',
    );
    expect(describeKeyProblem({ ...problem, reason: 'it is a folder', isRemovable: false })).toBe(
      '/s/keys/a.json is not a key: it is a folder; it lets nobody in; remove it by hand',
    );
    expect(
      describeKeyProblem({
        id: null,
        path: '/s/keys',
        reason: 'it cannot be read (EACCES)',
        isRemovable: false,
      }),
    ).toBe('/s/keys: it cannot be read (EACCES); no key in it holds');
  });
});

describe('a reading of the folder of keys', () => {
  const lasting = { stamp: 'a', seenMs: 1000, readMs: 3000 };

  it('holds while the folder looks the same', () => {
    expect(holds(lasting, 'a', 3000)).toBe(true);
    expect(holds(lasting, 'b', 3000)).toBe(false);
  });

  it('does not hold when it began so early that a change after it may not show', () => {
    expect(holds({ ...lasting, readMs: 2999 }, 'a', 2999)).toBe(false);
    expect(holds({ ...lasting, readMs: 1000 }, 'a', 5000)).toBe(false);
  });

  it('does not hold for ever, as an edited file does not show', () => {
    expect(holds(lasting, 'a', 12_999)).toBe(true);
    expect(holds(lasting, 'a', 13_000)).toBe(false);
  });
});

describe('temporary keys', () => {
  it('are made only where there is surely no personal key', () => {
    const made = (kinds: readonly KeyKind[], isUncertain = false): readonly KeyKind[] =>
      temporaryKinds({ kinds: new Set(kinds), isUncertain });
    expect(made([])).toEqual(['personal', 'token']);
    expect(made(['group'])).toEqual(['personal', 'token']);
    expect(made(['token'])).toEqual(['personal']);
    expect(made(['personal'])).toEqual([]);
    expect(made(['personal', 'token'])).toEqual([]);
    expect(made([], true)).toEqual([]);
  });
});

describe('the log of requests', () => {
  const SECRETS = ['the api/key', 'the-token'];
  const { key } = makeKey('group', 'forge', AT);

  it('shows what is asked for', () => {
    for (const target of [
      '/api/repos',
      '/api/repos/github.com%2Forg%2Fplan.git/contents/a%20b.xlsx?branch=feature/x',
      '/api/v1/workbooks?status=failure&page=2&page_size=10&q=budget',
      '/git/Accounting.git/info/refs?service=git-upload-pack',
      '/api/repos?',
      '/api/repos/x/contents/100%/a%2/b@c/%ff?branch=a+b@c%20d',
    ])
      expect(showTarget(target, SECRETS)).toBe(target);
  });

  it('shows as many parameters as a request can have, and says that there were more', () => {
    const parameters = Array.from({ length: 5000 }, (_, index) => `q=${index}%25`);
    const target = (count: number): string => `/api/repos?${parameters.slice(0, count).join('&')}`;
    expect(showTarget(target(20), SECRETS)).toBe(target(20));
    expect(showTarget(target(21), SECRETS)).toBe(`${target(20)}&…`);
    expect(showTarget(target(5000), SECRETS)).toBe(`${target(20)}&…`);
  });

  it('shows no secret that somebody put into the address', () => {
    const cases: ReadonlyArray<readonly [string, string]> = [
      [`/api/webhooks/push?key=${key}`, '/api/webhooks/push?key=[hidden]'],
      ['/api/webhooks/push?secret=abc&branch=x', '/api/webhooks/push?secret=[hidden]&branch=x'],
      ['/api/repos?abc', '/api/repos?[hidden]'],
      ['/api/repos?a=b=c?d', '/api/repos?a=[hidden]'],
      [`/api/webhooks/push/${key}`, '/api/webhooks/push/wbg_[hidden]'],
      [`/api/repos?branch=${key}`, '/api/repos?branch=wbg_[hidden]'],
      ['/api/the-token/x', '/api/[secret]/x'],
      ['/api/repos/the%20api%2Fkey/contents', '/api/repos/[secret]/contents'],
      ['http://anna:pass@host/api/repos', 'http://[hidden]@host/api/repos'],
      [
        '/api/repos/https://user:secret@host/x.git/contents',
        '/api/repos/https://[hidden]@host/x.git/contents',
      ],
      ['/api/repos/https://user:se/cr@et@host/x.git', '/api/repos/https://[hidden]@host/x.git'],
      ['/api/repos/https:/user:secret@host/x.git', '/api/repos/https:/[hidden]@host/x.git'],
      ['/api/repos/https%3A%2F%2Fuser:secret%40host', '/api/repos/https://[hidden]@host'],
      ['/api/repos/user%253Asecret%2540host', '/api/repos/[hidden]@host'],
      ['/api/repos?path=//user:secret@host', '/api/repos?path=//[hidden]@host'],
      [`/api/repos?branch=wbp%5F${key.slice(4)}`, '/api/repos?branch=wbp_[hidden]'],
      ['/api/repos?%77b%67_abcdefgh', '/api/repos?[hidden]'],
      ['/api/repos?the-%74oken=x', '/api/repos?[secret]=[hidden]'],
      ['/api/repos?q=the+api/key', '/api/repos?q=[secret]'],
      ['/api/repos?q=%74he-tok%65n', '/api/repos?q=[secret]'],
      [`/%${'25'.repeat(9)}41`, '[hidden]'],
    ];
    for (const [target, shown] of cases) expect(showTarget(target, SECRETS)).toBe(shown);
  });

  it('never shows a key, however it is encoded', () => {
    const encodings = fc.array(fc.nat(2), { minLength: key.length, maxLength: key.length });
    fc.assert(
      fc.property(encodings, fc.constantFrom('/', '/?branch=', '/?key='), (times, before) => {
        const encoded = key
          .split('')
          .map((letter, index) =>
            Array.from({ length: times[index] ?? 0 }).reduce<string>(
              (text) => text.replaceAll('%', '%25').replace(letter, `%${letter.charCodeAt(0).toString(16)}`),
              letter,
            ),
          );
        const shown = showTarget(before + encoded.join(''), []);
        expect(decodeURIComponent(decodeURIComponent(shown))).not.toContain(key.slice(-12));
      }),
    );
  });

  it('never shows a key, wherever it stands', () => {
    const place = fc.constantFrom('/', '?', '&', '=', 'a', 'branch=', 'path=', '%', '://', '@', '#');
    fc.assert(
      fc.property(fc.array(place), fc.array(place), (before, after) => {
        const shown = showTarget(`/${before.join('')}${key}${after.join('')}`, []);
        expect(shown).not.toContain(key.slice(4));
      }),
    );
  });

  it('says why the service failed, without its secrets', () => {
    const client = { address: '192.0.2.1', program: `curl ${key}` };
    const info = { method: 'GET', path: '/api/repos', status: 500, durationMs: 1.4, client };
    expect(requestLines(info, SECRETS, false)).toEqual({ line: 'GET /api/repos 500 1 ms', failure: null });
    expect(requestLines(info, SECRETS, true).line).toBe(
      'GET /api/repos 500 1 ms, from 192.0.2.1, curl wbg_[hidden]',
    );
    const error = new Error(`cannot open the-token\n${key}`);
    expect(requestLines({ ...info, error }, SECRETS, false).failure).toBe(
      'GET /api/repos 500 1 ms: cannot open [secret]\nwbg_[hidden]',
    );
    const gone = Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
    expect(requestLines({ ...info, error: gone }, SECRETS, false)).toEqual({
      line: 'GET /api/repos 500 1 ms, given up by the client',
      failure: null,
    });
    expect(requestLines({ ...info, error: 1 }, SECRETS, false).failure).toContain('for an unknown reason');
  });

  it('says who asks, where all is to be logged, without a key', () => {
    const info = { method: 'GET', path: '/', status: 200, durationMs: 1 };
    const client = { address: '::1', program: `curl/8 ${key}` };
    expect(requestLines({ ...info, client }, SECRETS, true).line).toBe(
      'GET / 200 1 ms, from ::1, curl/8 wbg_[hidden]',
    );
    const unknown = { address: null, program: null };
    expect(requestLines({ ...info, client: unknown }, SECRETS, true).line).toBe(
      'GET / 200 1 ms, from an unknown address',
    );
  });
});
