import { describe, expect, it } from 'vitest';

import { KEY_KINDS, type KeyKind } from '../../../../src/lib/api/requests.ts';
import { authorise } from '../../../../src/server/http/auth.ts';
import { digestOfKey, findKey, fixedKey, looksLikeKey, makeKey } from '../../../../src/server/keys/keys.ts';

const PERSONAL = fixedKey('personal', 'Anna', 'p');
const GROUP = fixedKey('group', 'forge', 'g');
const TOKEN = fixedKey('token', 'Anna', 't');
const ALL = [PERSONAL, GROUP, TOKEN];
const AT = new Date('2026-01-02T03:04:05.678Z');

/** The error of a call; null if it succeeds. */
function refusal(call: () => unknown): Error | null {
  try {
    call();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error('it threw no error');
  }
}

describe('a sent key', () => {
  it('is found by its digest', () => {
    expect(findKey(ALL, 'g')).toBe(GROUP);
    for (const sent of ['x', '', digestOfKey('p')]) expect(findKey(ALL, sent)).toBeNull();
    expect(findKey([], 'p')).toBeNull();
  });

  it('may be a key of several kinds', () => {
    const same = KEY_KINDS.map((kind) => fixedKey(kind, kind, 'same'));
    for (const kind of KEY_KINDS) expect(findKey(same, 'same', kind)?.kind).toBe(kind);
    expect(authorise('current', { 'x-api-key': 'same' }, same).kind).toBe('personal');
    expect(authorise('v1', { authorization: 'same' }, same).kind).toBe('token');
  });
});

describe('each generation of the API', () => {
  it('accepts only its own kind of key', () => {
    for (const headers of [{ 'x-api-key': 'g' }, { authorization: 'g' }]) {
      const generation = 'authorization' in headers ? 'v1' : 'current';
      const refused = { status: 403, code: 'group_key' };
      expect(refusal(() => authorise(generation, headers, ALL))).toMatchObject(refused);
    }
    const wrongKind = { status: 401, code: 'unauthorized' };
    expect(refusal(() => authorise('current', { 'x-api-key': 't' }, ALL))).toMatchObject(wrongKind);
    expect(refusal(() => authorise('v1', { authorization: 'p' }, ALL))).toMatchObject(wrongKind);
    expect(authorise('current', { 'x-api-key': 'p' }, ALL)).toBe(PERSONAL);
    for (const authorization of ['t', 'Token t', 'Bearer t'])
      expect(authorise('v1', { authorization }, ALL)).toBe(TOKEN);
  });

  it('says what is wrong with a key, without the key, and where to make one', () => {
    const message = (generation: 'current' | 'v1', sent: string, keys = ALL): string => {
      const headers = generation === 'v1' ? { authorization: sent } : { 'x-api-key': sent };
      return refusal(() => authorise(generation, headers, keys))?.message ?? '';
    };
    expect(message('current', '')).toMatch(/is missing: .*keys create --kind personal.*Access > API Key/);
    expect(message('current', 'wbt_gone')).toMatch(/^this is an API token; use a personal API key/);
    expect(message('current', 'wbp_gone')).toMatch(/is not valid/);
    expect(message('current', 'wbp_gone')).not.toContain('wbp_gone');
    expect(message('v1', 'Bearer p')).toMatch(/^this is a personal API key; use an API token/);
    expect(message('v1', 'x')).toMatch(/keys create --kind token.*Organization > Personal API Token/);
  });

  it('refuses everything without a key, and is off if no token exists', () => {
    expect(refusal(() => authorise('current', { 'x-api-key': '' }, []))).toMatchObject({ status: 401 });
    const off = refusal(() => authorise('v1', { authorization: '' }, [PERSONAL, GROUP]));
    expect(off).toMatchObject({ status: 404 });
    expect(off?.message).toMatch(/switched off.*keys create --kind token/);
  });
});

describe('a new key', () => {
  it('is long, of its kind, and stored only as a digest', () => {
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
      expect(JSON.stringify(stored)).not.toContain(key.slice(4));
      expect(stored.signingSecret ?? 'none').toMatch(kind === 'group' ? /^wbs_[\w-]{43}$/ : /^none$/);
    }
  });

  it('needs a name that Git accepts as an author', () => {
    for (const name of ['Anna', 'Änne Größe', '李', 'build-7', 'a'.repeat(200)])
      expect(makeKey('personal', name, AT).stored.name).toBe(name);
    for (const name of ['', ' ', '...', ' Anna', 'Anna ', 'a<b', 'a>b', 'a\nb', 'a\u202eb', 'a'.repeat(201)])
      expect(refusal(() => makeKey('personal', name, AT))).toMatchObject({ code: 'usage.invalid' });
  });
});
