import { describe, expect, it } from 'vitest';

import { contentsPath } from '../../src/api/requests.ts';
import { RequestError } from '../../src/service/request-error.ts';
import { findRoute, splitTarget } from '../../src/service/routes.ts';

function refusal(path: string): number {
  try {
    findRoute(path);
  } catch (error) {
    if (error instanceof RequestError) return error.status;
  }
  return 0;
}

describe('routes of the service', () => {
  it('finds the lists, also under the newer name', () => {
    expect(findRoute('/api/repos')).toEqual({ kind: 'repositories' });
    expect(findRoute('/api/repositories')).toEqual({ kind: 'repositories' });
    expect(findRoute('/api/repos/')).toEqual({ kind: 'repositories' });
    expect(findRoute('/api/v1/workbooks')).toEqual({ kind: 'workbooks' });
  });

  it.each([
    ['/api/repos/Accounting/contents', 'Accounting', ''],
    ['/api/repos/Accounting/contents/', 'Accounting', ''],
    ['/api/repos/host%2Forg%2Fplan.git/contents', 'host/org/plan.git', ''],
    ['/api/repos/host/org/plan.git/contents/a/b.xlsx', 'host/org/plan.git', 'a/b.xlsx'],
    ['/api/repos/Sales%20Europe/contents/%C3%9Cbersicht/', 'Sales Europe', 'Übersicht'],
    ['/api/repositories/x/contents/50%25%20%231%3F.xlsx', 'x', '50% #1?.xlsx'],
    ['/api/repos/x/contents/a%2Fb', 'x', 'a/b'],
  ])('reads %s', (path, reference, inner) => {
    expect(findRoute(path)).toEqual({ kind: 'contents', readings: [{ reference, path: inner }] });
  });

  it('gives every reading of a path in which `contents` occurs more than once, the shortest reference first', () => {
    expect(findRoute('/api/repos/host/contents/plan.git/contents/a')).toEqual({
      kind: 'contents',
      readings: [
        { reference: 'host', path: 'plan.git/contents/a' },
        { reference: 'host/contents/plan.git', path: 'a' },
      ],
    });
    expect(findRoute('/api/repos/contents/contents')).toMatchObject({
      readings: [{ reference: 'contents', path: '' }],
    });
  });

  it('understands what the client makes of a reference, a path and a branch', () => {
    const target = `/api${contentsPath('host%2Fplan.git', 'Ä b/#1 100%?.xlsx', 'feature/q3 & more')}`;
    const { path, query } = splitTarget(target);
    expect(findRoute(path)).toMatchObject({
      readings: [{ reference: 'host/plan.git', path: 'Ä b/#1 100%?.xlsx' }],
    });
    expect(query.get('branch')).toBe('feature/q3 & more');
  });

  it('takes a target with scheme and host, as a proxy is sent it', () => {
    expect(splitTarget('http://host:80/api/repos?a=1').path).toBe('/api/repos');
  });

  it.each(['/repos', '/apis/repos', '/api', '/api/repos/x', '/api/v1', '/api/v1/repos', '/api/contents'])(
    'has nothing at %s',
    (path) => {
      expect(refusal(path)).toBe(404);
    },
  );

  it('says where the API is to whoever asks beside it', () => {
    expect(() => findRoute('/repos')).toThrow(/below \/api/);
  });

  it('refuses a path that cannot be decoded', () => {
    expect(refusal('/api/repos/x/contents/%ff')).toBe(400);
    expect(refusal('/api/repos/%zz/contents')).toBe(400);
  });
});
