import { describe, expect, it, vi } from 'vitest';

import { contentsPath } from '../../../../src/lib/api/requests.ts';
import { RequestError, splitTarget } from '../../../../src/lib/http/request.ts';
import { findRoute } from '../../../../src/server/http/handler.ts';
import { findContents } from '../../../../src/server/http/repository-reference.ts';

function refusal(path: string): number {
  try {
    findRoute(path);
  } catch (error) {
    if (error instanceof RequestError) return error.status;
  }
  return 0;
}

/** The full name and the path that a request for contents means, if repositories of these full names exist. */
function meant(path: string, ...names: readonly string[]): readonly string[] {
  const repositories = names.map((full_name) => ({
    id: `id of ${full_name}`,
    name: '',
    full_name,
    url: null,
    created_at: null,
  }));
  const { repository, path: inner } = findContents(repositories, findRoute(path).parts['tail'] ?? '');
  return [repository.full_name, inner];
}

describe('routes of the service', () => {
  it('finds the lists, also under the newer name', () => {
    const { route } = findRoute('/api/repos');
    expect(route.methods).toEqual(['GET', 'HEAD', 'POST']);
    expect(findRoute('/api/repositories').route).toBe(route);
    expect(findRoute('/api/repos/').route).toBe(route);
    expect(findRoute('/api/v1/workbooks').route.methods).toEqual(['GET', 'HEAD']);
  });

  it.each([
    ['/api/repos/Accounting/contents', 'Accounting', ''],
    ['/api/repos/Accounting/contents/', 'Accounting', ''],
    ['/api/repos/host%2Forg%2Fplan.git/contents', 'host/org/plan.git', ''],
    ['/api/repos/host/org/plan.git/contents/a/b.xlsx', 'host/org/plan.git', 'a/b.xlsx'],
    ['/api/repos/Sales%20Europe/contents/%C3%9Cbersicht/', 'Sales Europe', 'Übersicht'],
    ['/api/repositories/x/contents/50%25%20%231%3F.xlsx', 'x', '50% #1?.xlsx'],
  ])('reads %s', (path, reference, inner) => {
    expect(meant(path, reference)).toEqual([reference, inner]);
  });

  it('takes the shortest reference that names a repository, if a path has several `contents`', () => {
    const path = '/api/repos/host/contents/plan.git/contents/a';
    expect(meant(path, 'host/contents/plan.git')).toEqual(['host/contents/plan.git', 'a']);
    expect(meant(path, 'host/contents/plan.git', 'host')).toEqual(['host', 'plan.git/contents/a']);
    expect(meant('/api/repos/contents/contents', 'contents')).toEqual(['contents', '']);
    expect(() => meant(path, 'other')).toThrow('there is no repository host');
  });

  it('understands the client’s address for a reference, a path and a branch', () => {
    const target = `/api${contentsPath('host%2Fplan.git', 'Ä b/#1 100%?.xlsx', 'feature/q3 & more')}`;
    const { path, query } = splitTarget(target);
    expect(meant(path, 'host/plan.git')).toEqual(['host/plan.git', 'Ä b/#1 100%?.xlsx']);
    expect(new URLSearchParams(query).get('branch')).toBe('feature/q3 & more');
  });

  it.each(['/repos', '/apis/repos', '/api', '/api/repos/x', '/api/v1', '/api/v1/repos', '/api/contents'])(
    'has nothing at %s',
    (path) => {
      expect(refusal(path)).toBe(404);
    },
  );

  it('answers other paths with the address of the API', () => {
    expect(() => findRoute('/repos')).toThrow(/followed by \/api$/);
  });

  it('refuses a path that cannot be decoded', () => {
    expect(() => meant('/api/repos/x/contents/%ff')).toThrow(/does not begin an encoded UTF-8 character/);
    expect(() => meant('/api/repos/%zz/contents')).toThrow(/does not begin an encoded UTF-8 character/);
  });

  it.each([
    ['/git/Accounting.git/info/refs', 'Accounting', 'info/refs'],
    ['/git/host%2Fplan.git/git-upload-pack', 'host%2Fplan', 'git-upload-pack'],
    ['/git/.git/info/refs', '.git', 'info/refs'],
    ['/git/info/refs/info/refs', 'info/refs', 'info/refs'],
  ])('finds the repository of git in %s', (path, reference, asked) => {
    expect(findRoute(path).parts).toMatchObject({ reference, asked });
  });

  it.each(['/git/info/refs', '/git//info/refs', '/git/Accounting.git', '/git/Accounting.git/HEAD'])(
    'has nothing of git at %s',
    (path) => {
      expect(refusal(path)).toBe(404);
    },
  );
});

it('a path is not decoded before the key is checked', () => {
  const decode = vi.spyOn(globalThis, 'decodeURIComponent');
  for (const path of ['/api/repos', '/git']) findRoute(`${path}${'/contents'.repeat(1400)}/info/refs`);
  expect(decode).not.toHaveBeenCalled();
});
