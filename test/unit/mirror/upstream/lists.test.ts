import { describe, expect, it } from 'vitest';

import { serviceTimeMs } from '../../../../src/mirror/upstream/answers.ts';
import { readRepositoryRows } from '../../../../src/mirror/upstream/lists.ts';

describe('the service’s clock', () => {
  it.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', 784_111_777_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 784_111_777_000],
    ['1994-11-06T08:49:37Z', null],
    ['Sun, 99 Nov 1994 08:49:37 GMT', null],
    [undefined, null],
  ])('given as %j', (header, expected) => {
    expect(serviceTimeMs(header)).toBe(expected);
  });
});

describe('rows of the list of repositories', () => {
  const good = { id: '1', name: 'a', full_name: 'a', url: null, created_at: null };
  const other = { ...good, id: '2', name: 'b', full_name: 'b' };

  it.each<[string, unknown]>([
    ['null', null],
    ['a list', [good]],
    ['a number for an id', { ...other, id: 3 }],
    ['null for a name', { ...other, full_name: null }],
    ['an empty name', { ...other, full_name: '' }],
    ['a list for an address', { ...other, url: [] }],
    ['an id of two lines', { ...other, id: '2\nmain' }],
    ['a huge id', { ...other, id: 'x'.repeat(5000) }],
    ['a huge name', { ...other, full_name: 'x/'.repeat(5000) }],
  ])('with %s: that one is malformed, and no other', (_what, bad) => {
    const read = readRepositoryRows([good, bad, { ...other, id: '9' }]);
    expect(read.repositories.map(({ id }) => id)).toStrictEqual(['1', '9']);
    expect(read.isComplete).toBe(false);
    expect(read.problems).toStrictEqual([
      expect.stringMatching(/^in the list of repositories, (?:the row of ".{1,200}" \()?row 2\b/),
    ]);
  });

  it.each<[string, Record<string, unknown>]>([
    ['prototype names', { id: '__proto__', name: 'constructor', full_name: '__proto__' }],
    ['control characters in names', { id: '2', name: 'b\u0000\u001b[2J', full_name: 'b\u0000\u001b[2J' }],
    ['paths that lead up', { id: '..', name: '..', full_name: '../../etc' }],
    ['half a character', { id: '2', name: '\ud800', full_name: '\ud800' }],
    ['a malformed time', { ...other, created_at: 'yesterday' }],
  ])('with %s are rows like others', (_what, row) => {
    const read = readRepositoryRows([good, row]);
    expect(read).toMatchObject({ isComplete: true, problems: [] });
    expect(read.repositories).toHaveLength(2);
  });

  it('have no credentials in their addresses', () => {
    const urls = [
      'https://user:secret@host.example/plan.git',
      'ssh://git@host.example/plan.git',
      'git@host:plan',
    ];
    const rows = urls.map((url, at) => ({ id: `${at}`, name: `${at}`, full_name: `${at}`, url }));
    const shown = ['https://host.example/plan.git', ...urls.slice(1)];
    expect(readRepositoryRows(rows).repositories.map(({ url }) => url)).toEqual(shown);
  });

  it('that occur twice count once', () => {
    expect(readRepositoryRows([good, other, { ...good }])).toMatchObject({
      repositories: [{ id: '1' }, { id: '2' }],
      isComplete: true,
      problems: [],
    });
  });

  it('that give two names for one id do not count, and prove nothing', () => {
    const rows = [good, other, { ...good, full_name: 'elsewhere' }];
    const read = readRepositoryRows(rows);
    expect(read).toMatchObject({ repositories: [{ id: '2' }], isComplete: false });
    expect(read.problems).toHaveLength(1);
    expect(readRepositoryRows(rows.toReversed())).toStrictEqual(read);
  });
});
