import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Published } from '../../../../src/mirror/plan/record.ts';
import { assignBranchSegments, assignRepositoryPaths } from '../../../../src/mirror/plan/paths.ts';
import { encodeSegment, foldName } from '../../../../src/lib/paths/safe-path.ts';
import type { Repository } from '../../../../src/mirror/upstream/listing.ts';
import { repository } from '../../../support/builders.ts';

type Tree = Pick<Published, 'path' | 'repository' | 'branch'>;

function assignBranchSegment(branch: string, taken: ReadonlyMap<string, string>): string {
  return assignBranchSegments([branch], taken).get(branch) ?? '';
}

function pathsOf(repositories: readonly Repository[], occupied: readonly Tree[] = []): string[] {
  const paths = assignRepositoryPaths(repositories, occupied);
  return repositories.map(({ id }) => paths.get(id) ?? 'none');
}

function place(of: Repository, path: string, fullName = of.fullName): Tree {
  return { repository: { ...of, fullName }, path: `${path}/main`, branch: 'main' };
}

function clash(one: string, other: string): boolean {
  const a = foldName(one).split('/');
  const b = foldName(other).split('/');
  return a.slice(0, b.length).join('/') === b.slice(0, a.length).join('/');
}

function clashes(paths: readonly string[]): string[][] {
  return paths.flatMap((path, index) =>
    paths.slice(index + 1).flatMap((other) => (clash(path, other) ? [[path, other]] : [])),
  );
}

const OLD = '2024-01-01T00:00:00+00:00';
const older = (id: string, fullName: string): Repository => repository({ id, fullName, createdAt: OLD });
const newer = (id: string, fullName: string): Repository => repository({ id, fullName });

describe("repositories' paths", () => {
  it.each([
    { what: 'equal', first: 'Plan', second: 'Plan', marked: 'Plan~bbbbbbbb' },
    { what: 'equal but for the case', first: 'Plan', second: 'plan', marked: 'plan~bbbbbbbb' },
    { what: 'equal but for the Unicode form', first: 'é', second: 'e\u0301', marked: 'e\u0301~bbbbbbbb' },
    { what: 'inside the other', first: 'a/b', second: 'a/b/main', marked: 'a/b~bbbbbbbb/main' },
    { what: 'around the other', first: 'a/b/main', second: 'a/b', marked: 'a/b~bbbbbbbb' },
    { what: 'inside, but for the case', first: 'A', second: 'a/b', marked: 'a~bbbbbbbb/b' },
  ])('that are $what: the later repository is marked', ({ first, second, marked }) => {
    const one = older('aaaaaaaa-1111', first);
    const two = newer('bbbbbbbb-2222', second);
    expect(pathsOf([one, two])).toEqual([first, marked]);
    expect(pathsOf([two, one])).toEqual([marked, first]);
  });

  it('depend on fractions of a second, too', () => {
    const second = repository({ id: 'bbbbbbbb-2', fullName: 'Plan', createdAt: '2026-01-02T03:04:05+00:00' });
    const moment = '2026-01-02T03:04:05.000006+00:00';
    const later = repository({ id: 'aaaaaaaa-1', fullName: 'Plan', createdAt: moment });
    expect(pathsOf([later, second])).toEqual(['Plan~aaaaaaaa', 'Plan']);
  });

  it('are the full names if nothing collides, not even side by side in one folder', () => {
    const names = ['a/b', 'a/bc', 'a/b.json'];
    expect(pathsOf(names.map((name) => newer(`id of ${name}`, name)))).toEqual(names);
  });

  it('differ even if two ids begin alike', () => {
    const paths = pathsOf([older('12345678-a', 'x'), newer('12345678-b', 'X'), newer('12345678-c', 'x')]);
    expect(paths).toEqual(['x', 'X~12345678', 'x~12345678~12345678']);
  });

  it('depend on the id if the ages are equal or unknown', () => {
    const ageless = (id: string): Repository => repository({ id, fullName: 'x', createdAt: null });
    expect(pathsOf([ageless('b'), ageless('a')])).toEqual(['x~b', 'x']);
  });

  it('encode an id that is not a UUID', () => {
    expect(pathsOf([older('1', 'x'), newer('../a:b', 'x')])[1]).toBe('x~..%2Fa%3Ab');
  });

  it('stay with a mirrored repository, even if an older one appears', () => {
    const here = newer('new', 'plan');
    const comes = older('old', 'Plan');
    expect(pathsOf([here, comes], [place(here, 'plan')])).toEqual(['plan', 'Plan~old']);
  });

  it('stay marked once they were marked', () => {
    const here = newer('new', 'plan');
    expect(pathsOf([here], [place(here, 'plan~new')])).toEqual(['plan~new']);
  });

  it('follow a renamed repository, and its old path is no obstacle', () => {
    const renamed = newer('1', 'Plan');
    expect(pathsOf([renamed], [place(renamed, 'plan', 'plan')])).toEqual(['Plan']);
  });

  it('block a path for its next repository until the old one has left', () => {
    const one = older('aaaaaaaa', 'two');
    const two = older('bbbbbbbb', 'one');
    const occupied = [place(one, 'one', 'one'), place(two, 'two', 'two')];
    expect(pathsOf([one, two], occupied)).toEqual(['two~aaaaaaaa', 'one~bbbbbbbb']);
  });

  it('go to a repository that was recreated with the name of a deleted one', () => {
    const gone = older('gone', 'Plan');
    const anew = newer('anew', 'Plan');
    expect(pathsOf([anew], [place(gone, 'Plan')])).toEqual(['Plan']);
  });

  it('of a deleted repository do not go to one with a similar name', () => {
    const gone = older('gone', 'Plan');
    expect(pathsOf([newer('anew', 'plan')], [place(gone, 'Plan')])).toEqual(['plan~anew']);
  });

  it('of a deleted repository go only to its namesake', () => {
    const gone = older('gone', 'x');
    const inside = older('inside', 'x/main');
    const anew = newer('anew', 'x');
    const paths = pathsOf([inside, anew], [place(gone, 'x')]);
    expect(paths[0] === 'x/main').toBe(false);
  });

  it('differ when a repository returns after its name and path went to another', () => {
    const back = older('back', 'Plan');
    const anew = newer('anew', 'Plan');
    // The new one was pulled to another branch's place below the same path while the old one's tree was still there.
    const paths = pathsOf([back, anew], [place(back, 'Plan'), place(anew, 'Plan')]);
    expect(new Set(paths).size).toBe(2);
  });

  it.each([
    ['x/main', 'x/main~1'],
    ['x/main/main', 'x/main~1/main'],
    ['x/Main/y/z', 'x/Main~1/y/z'],
  ])('of a repository renamed to %s do not lie inside its own tree x/main', (name, expected) => {
    const renamed = newer('1', name);
    expect(pathsOf([renamed], [place(renamed, 'x', 'x')])).toEqual([expected]);
  });

  it('have segments that a file system accepts, even if marked', () => {
    const fullName = 'x'.repeat(250);
    const [, marked = ''] = pathsOf([older('aaaaaaaa', fullName), newer('bbbbbbbb', fullName)]);
    expect(Buffer.byteLength(marked)).toBeLessThanOrEqual(255);
  });

  const part = fc.constantFrom('a', 'A', 'b', 'é', 'e\u0301', 'É', 'a~1', 'a~11111111', 'main', '');
  const someName = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
  const someRepositories = fc.uniqueArray(
    fc.record({
      id: fc.constantFrom('1', '2', '11111111-a', '11111111-b', '11111111-A', 'x', 'X', 'main'),
      fullName: someName,
      createdAt: fc.constantFrom(null, OLD, '2025-01-01T00:00:00+00:00'),
    }),
    { selector: ({ id }) => id, maxLength: 8 },
  );

  it('do not depend on the order of the list, and stay when they are mirrored and listed again', () => {
    fc.assert(
      fc.property(someRepositories, (fields) => {
        const repositories = fields.map(repository);
        const first = assignRepositoryPaths(repositories, []);
        const again = assignRepositoryPaths([...repositories].reverse(), []);
        for (const { id } of repositories) {
          expect(again.get(id)).toBe(first.get(id));
        }
        const occupied = repositories.map((each) => place(each, first.get(each.id) ?? ''));
        expect(assignRepositoryPaths(repositories, occupied)).toEqual(first);
      }),
    );
  });

  it('never collide for any names, ids and ages, while repositories are renamed, added and removed', () => {
    fc.assert(
      fc.property(someRepositories, someRepositories, (before, after) => {
        const repositories = before.map(repository);
        const first = pathsOf(repositories);
        expect(clashes(first)).toEqual([]);
        const occupied = repositories.map((each, at) => place(each, first[at] ?? ''));
        expect(clashes(pathsOf(after.map(repository), occupied))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("branches' segments", () => {
  it('are encoded, and independent for branches without similarity', () => {
    expect(assignBranchSegment('feature/x', new Map([['main', 'main']]))).toBe('feature%2Fx');
  });

  it('stays as it is', () => {
    expect(assignBranchSegment('main', new Map([['main', 'main~12345678']]))).toBe('main~12345678');
  });

  it.each([
    ['main', 'Main'],
    ['é', 'e\u0301'],
  ])('of %j is marked because of %j', (branch, other) => {
    const segment = assignBranchSegment(branch, new Map([[other, encodeSegment(other)]]));
    expect(segment).toMatch(/~[0-9a-f]{8}$/);
    expect(segment.startsWith(encodeSegment(branch))).toBe(true);
  });

  it('stays short enough for its manifest when it is marked', () => {
    const branch = '文'.repeat(82) + 'a';
    const segment = assignBranchSegment(branch, new Map([['other', '文'.repeat(82) + 'A']]));
    expect(Buffer.byteLength(`${segment}.json`)).toBeLessThanOrEqual(255);
  });

  it('is not the segment of a branch with exactly that name', () => {
    const marked = assignBranchSegment('main', new Map([['Main', 'Main']]));
    const taken = new Map([
      ['Main', 'Main'],
      [marked, marked],
    ]);
    expect([...taken.values()]).not.toContain(assignBranchSegment('main', taken));
  });

  it('never collide, for any names', () => {
    const alike = ['a', 'A', 'é', 'e\u0301', 'É', 'a/b', 'A/B', '', '.', 'con', 'CON', 'ß', 'SS', 'ss'];
    const someBranch = fc.oneof(
      fc.constantFrom(...alike),
      fc.string({ maxLength: 5 }).filter((name) => !name.includes('~')),
    );
    fc.assert(
      fc.property(fc.uniqueArray(someBranch, { maxLength: 10 }), (branches) => {
        const segments = new Map<string, string>();
        for (const branch of branches) segments.set(branch, assignBranchSegment(branch, segments));
        expect(new Set([...segments.values()].map(foldName)).size).toBe(branches.length);
      }),
      { numRuns: 500 },
    );
  });
});
