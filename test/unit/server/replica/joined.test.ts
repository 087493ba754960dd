import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { RequestError } from '../../../../src/lib/http/request-error.ts';
import type { Repository, WorkbookRow } from '../../../../src/server/http/library.ts';
import {
  describeMeeting,
  findMeetings,
  joinLibraries,
  type Meeting,
} from '../../../../src/server/replica/joined.ts';
import type { ReplicaLibrary } from '../../../../src/server/replica/library.ts';

function repository(id: string, fullName = id): Repository {
  return { id, name: fullName, full_name: fullName, url: null, created_at: null };
}

function row(integration: string, path: string): WorkbookRow {
  const version = { id: 'v', author: null, action: null, createdAt: null, message: null, parentId: null };
  return { id: `${integration}/${path}`, integration, branch: 'main', path, version };
}

/** A mirror in memory, which tests change. */
class Part {
  repositories: readonly Repository[];
  rows: readonly WorkbookRow[] = [];
  verifiedAtMs: number | null = null;
  processing = 0;
  isBroken = false;
  readonly directory: string;

  constructor(directory: string, ...repositories: Repository[]) {
    this.directory = directory;
    this.repositories = repositories;
  }

  get library(): ReplicaLibrary {
    const reading = async <T>(value: T): Promise<T> => {
      if (this.isBroken) throw new RequestError(503, 'unavailable', `the disk of ${this.directory} fails`);
      return value;
    };
    return {
      repositories: () => reading(this.repositories),
      knownRepositories: () => reading(this.repositories),
      workbooks: async () => ({
        rows: await reading(this.rows),
        standingOf: () => ({ status: 'success', processing: this.processing, failure: 0 }),
      }),
      content: (repository, branch) =>
        Promise.reject(new RequestError(404, 'asked', `${this.directory} ${repository.full_name} ${branch}`)),
      verifiedAtMs: () => reading(this.verifiedAtMs),
      totals: () => Promise.reject(new Error('not asked for')),
    };
  }
}

function join(...parts: Part[]) {
  const told: string[][] = [];
  const library = joinLibraries(parts, (meetings) => told.push(meetings.map(describeMeeting)));
  return { library, told };
}

const names = (repositories: readonly Repository[]): string[] => repositories.map((each) => each.full_name);

describe('repositories of several mirrors', () => {
  it.each<[string, Repository, Repository, string | null]>([
    ['differ', repository('1', 'A'), repository('2', 'B'), null],
    ['share a full name', repository('1', 'A'), repository('2', 'A'), 'A is in /a and in /b'],
    [
      'share an id',
      repository('1', 'A'),
      repository('1', 'B'),
      'A (id 1) in /a and B (id 1) in /b cannot be told apart',
    ],
    [
      'have a name that is an id',
      repository('1', 'A'),
      repository('A', 'B'),
      'A (id 1) in /a and B (id A) in /b cannot be told apart',
    ],
    ['differ in case alone', repository('1', 'A'), repository('2', 'a'), null],
  ])('that %s', (_what, one, other, expected) => {
    const meetings = findMeetings([
      { directory: '/a', repositories: [one] },
      { directory: '/b', repositories: [other] },
    ]);
    expect(meetings.map(describeMeeting)).toEqual(expected === null ? [] : [expected]);
  });

  it('meet exactly where a client that names one could mean one of another mirror', () => {
    const lists = fc.array(
      fc.uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.constantFrom('a', 'b', 'x', 'y')), {
        selector: ([id]) => id,
      }),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(lists, (all) => {
        const mirrors = all.map((list, index) => ({
          directory: String(index),
          repositories: list.map(([id, name]) => repository(id, name)),
        }));
        const references = ({ id, full_name }: Repository): string[] => [id, full_name];
        const meets = mirrors.flatMap((mirror) =>
          mirror.repositories.filter((one) =>
            mirrors.some(
              (other) =>
                other !== mirror &&
                other.repositories.some((each) =>
                  references(each).some((reference) => references(one).includes(reference)),
                ),
            ),
          ),
        );
        const found = new Set(
          findMeetings(mirrors).flatMap(({ one, other }: Meeting) => [one.repository, other.repository]),
        );
        // Of those with the same references in several mirrors the first stands for all.
        const foundReferences = new Set([...found].flatMap(references));
        expect(meets.every((each) => references(each).some((text) => foundReferences.has(text)))).toBe(true);
        expect([...found].every((each) => meets.includes(each))).toBe(true);
      }),
    );
  });
});

describe('a library of several mirrors', () => {
  it('lists all repositories by name, and all workbooks by id, in the same array while nothing changes', async () => {
    const a = new Part('/a', repository('1', 'C'), repository('2', 'A'));
    const b = new Part('/b', repository('3', 'B'));
    a.rows = [row('A', 'x'), row('C', 'x')];
    b.rows = [row('B', 'x')];
    b.processing = 1;
    const { library } = join(a, b);
    expect(names(await library.repositories())).toEqual(['A', 'B', 'C']);
    const { rows, standingOf } = await library.workbooks();
    expect(rows.map(({ id }) => id)).toEqual(['A/x', 'B/x', 'C/x']);
    expect(rows.map((each) => standingOf(each).processing)).toEqual([0, 1, 0]);
    expect((await library.workbooks()).rows).toBe(rows);
    b.rows = [row('B', 'x'), row('B', 'y')];
    expect((await library.workbooks()).rows).toHaveLength(4);
  });

  it('gives each repository from its own mirror', async () => {
    const { library } = join(new Part('/a', repository('1', 'A')), new Part('/b', repository('2', 'B')));
    for (const each of await library.repositories()) {
      const expected = `/${each.full_name.toLowerCase()} ${each.full_name} main`;
      await expect(library.content(each, 'main', '')).rejects.toThrow(expected);
    }
  });

  it('is as old as the oldest of them', async () => {
    const [a, b] = [new Part('/a'), new Part('/b')];
    const { library } = join(a, b);
    expect(await library.verifiedAtMs?.()).toBeNull();
    b.verifiedAtMs = 5;
    expect(await library.verifiedAtMs?.()).toBe(5);
    a.verifiedAtMs = 3;
    expect(await library.verifiedAtMs?.()).toBe(3);
  });

  it('refuses both lists, and what meets, while names meet, and says so once', async () => {
    const a = new Part('/a', repository('1', 'A'), repository('2', 'Other'));
    const b = new Part('/b', repository('3', 'B'));
    a.rows = [row('A', 'x')];
    const { library, told } = join(a, b);
    await library.repositories();
    b.repositories = [repository('3', 'A')];
    for (const list of [library.repositories, library.workbooks])
      await expect(list()).rejects.toMatchObject({
        status: 503,
        message: expect.stringContaining('A is in /a and in /b') as string,
      });
    const known = (await library.knownRepositories?.()) ?? [];
    expect(names(known)).toEqual(['A', 'A', 'Other']);
    for (const each of known) {
      const status = each.full_name === 'A' ? 503 : 404;
      await expect(library.content(each, 'main', '')).rejects.toMatchObject({ status });
    }
    b.repositories = [repository('3', 'B')];
    expect(names(await library.repositories())).toEqual(['A', 'B', 'Other']);
    expect(told).toEqual([['A is in /a and in /b'], []]);
  });

  it('refuses the list of workbooks that two mirrors have of one repository', async () => {
    const [a, b] = [new Part('/a', repository('1', 'A')), new Part('/b')];
    a.rows = [row('A', 'x')];
    b.rows = [row('A', 'y')];
    await expect(join(a, b).library.workbooks()).rejects.toMatchObject({ status: 503 });
  });

  it('goes on giving the others when the disk of one fails, but no list', async () => {
    const a = new Part('/a', repository('1', 'A'));
    const b = new Part('/b', repository('2', 'B'));
    const { library } = join(a, b);
    await library.knownRepositories?.();
    b.isBroken = true;
    const [first] = (await library.knownRepositories?.()) ?? [];
    expect(first?.full_name).toBe('A');
    await expect(library.content(first ?? repository('?'), 'main', '')).rejects.toThrow('/a A main');
    for (const list of [library.repositories, library.workbooks])
      await expect(list()).rejects.toMatchObject({ status: 503 });
  });
});
