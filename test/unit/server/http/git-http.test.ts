import { describe, expect, it } from 'vitest';

import { parseHead } from '../../../../src/server/git/http-backend.ts';
import { basicPassword } from '../../../../src/server/http/git-http.ts';
import { findGitRepository } from '../../../../src/server/http/repository-reference.ts';
import type { Repository } from '../../../../src/server/http/library.ts';

describe('Git over HTTP', () => {
  it('reads the head of a response, with or without a status', () => {
    expect(parseHead('Content-Type: text/plain\r\nX-A: b: c')).toEqual({
      status: 200,
      headers: { 'content-type': 'text/plain', 'x-a': 'b: c' },
    });
    const { status, headers } = parseHead('Status: 403 Forbidden\r\nPragma: no-cache');
    expect([status, headers]).toEqual([403, { pragma: 'no-cache' }]);
  });

  it('reads the password, with any user name', () => {
    const header = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
    expect(basicPassword(header('me:a:b'))).toBe('a:b');
    expect(basicPassword(header(':ä'))).toBe('ä');
    expect(basicPassword(header('me:').replace('Basic', 'bASIC '))).toBe('');
    for (const wrong of [undefined, '', 'Basic', 'Basic %%', 'Bearer abc', header('me')])
      expect(basicPassword(wrong)).toBe('');
  });

  it('finds a repository with and without .git', () => {
    const named = (id: string, name: string, full_name: string): Repository => {
      return { id, name, full_name, url: null, created_at: null };
    };
    const all = [
      named('1', 'plans', 'plans'),
      named('2', 'forecast', 'git.example.com/a/forecast.git'),
      named('3', 'old.git', 'old.git'),
      named('4', 'twin', 'h/a/twin.git'),
      named('5', 'twin', 'h/b/twin.git'),
    ];
    const found = ['plans', '2', 'forecast', 'git.example.com/a/forecast', 'old', 'h/b/twin'];
    expect(found.map((reference) => findGitRepository(all, reference).id).join('')).toBe('122235');
    expect(() => findGitRepository(all, 'twin')).toThrow('h/a/twin.git, h/b/twin.git');
    expect(() => findGitRepository(all, 'nope')).toThrow('no repository nope');
  });
});
