import { describe, expect, it } from 'vitest';

import { type ManifestFile, treeChanges } from '../../../../src/mirror/store/manifest.ts';
import { deletionLimit } from '../../../../src/config/plan-settings.ts';
import {
  type Approvals,
  type DeletionLimit,
  exceedsLimit,
  type HeldDeletion,
  heldFiles,
  holdTogether,
  movedFiles,
  type GuardFacts,
} from '../../../../src/mirror/plan/guard.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import {
  failure,
  listing,
  manifestFile,
  NOW_MS,
  planInput,
  planPolicy,
  published,
  publishedUnder,
  record,
  recordMap,
  repository,
  row,
  target,
} from '../../../support/builders.ts';

const OFF: DeletionLimit = { kind: 'off' };

/** The held deletion between two states. */
function heldBetween(
  before: readonly ManifestFile[],
  after: readonly ManifestFile[],
  limit: DeletionLimit,
): HeldDeletion | null {
  return heldFiles(before, after, treeChanges(before, after), limit);
}

it.each<[string, number, number, boolean]>([
  ['20%', 1, 5, false],
  ['20%', 2, 5, true],
  ['20%', 1, 4, true],
  ['3', 3, 4, false],
  ['3', 4, 1000, true],
  ['0', 1, 1000, true],
])('a limit of deletions of %s treats %i of %i as too many: %s', (text, deletions, total, isTooMuch) => {
  expect(exceedsLimit(deletionLimit.parse(text, ''), deletions, total)).toBe(isTooMuch);
});

describe('the files of a target', () => {
  const HALF = deletionLimit.parse('50%', '');
  const files = (count: number, fields: Partial<ManifestFile> = {}): ManifestFile[] =>
    Array.from({ length: count }, (_, index) => manifestFile(`f${index}`, fields));

  it('may go up to the limit', () => {
    expect(heldBetween(files(10), files(5), HALF)).toBeNull();
    expect(heldBetween(files(10), files(4), HALF)).toMatchObject({ subject: 'files', deletions: 6, of: 10 });
    expect(heldBetween(files(10), [], OFF)).toBeNull();
  });

  it('have no guard while they are few', () => {
    expect(heldBetween(files(5), [], HALF)).toBeNull();
    expect(heldBetween(files(6), [], HALF)).toMatchObject({ deletions: 6, of: 6 });
  });

  it('are not deleted when they only move', () => {
    const before = files(10);
    const moved = before.map((file) => ({ ...file, path: `folder/${file.path}` }));
    expect(heldBetween(before, moved, deletionLimit.parse('0', ''))).toBeNull();
  });

  it('count one by one, even if they are equal', () => {
    const sha256 = 'the same';
    const one = [manifestFile('elsewhere', { sha256 })];
    expect(heldBetween(files(10, { sha256 }), one, HALF)).toMatchObject({ deletions: 9, of: 10 });
  });

  it('are approved only for the deletion that was shown', () => {
    const [one, other, same] = [4, 3, 4].map((left) => heldBetween(files(10), files(left), HALF));
    expect(one?.digest).toBe(same?.digest);
    expect(one?.digest).not.toBe(other?.digest);
  });
});

describe('the targets of a pass', () => {
  const due = ['a', 'b', 'c'].map((branch) => ({ target: target(branch) }));
  const approved = (count: number): Approvals =>
    new Map(
      due
        .slice(0, count)
        .map((each) => [targetKey(each.target), { ...each, subject: 'target', digest: null }]),
    );

  const held = (limit: string, fields: Partial<GuardFacts> = {}): readonly unknown[] => {
    const policy = { guard: { targets: deletionLimit.parse(limit, '') } };
    const facts = { policy, approvals: new Map(), records: new Map(), ...fields };
    return [...holdTogether('target', due, 10, facts).keys()];
  };

  it('are all held when they are too many', () => {
    expect(held('1')).toEqual(due);
    expect(held('3')).toEqual([]);
    expect(held('off')).toEqual([]);
  });

  it('pass when they are approved, and no others do', () => {
    for (const count of [1, 2, 3])
      expect(held('1', { approvals: approved(count) })).toEqual(due.slice(count));
  });

  it('stay on hold after the others are gone, until the limit is raised', () => {
    const before: HeldDeletion = { subject: 'target', deletions: 4, of: 10, digest: null };
    const records = new Map(due.map((each) => [targetKey(each.target), { held: before }]));
    expect(held('3', { records })).toEqual(due);
    expect(held('4', { records })).toEqual([]);
  });

  it('also hold the targets that wait for their paths', () => {
    const gone = repository();
    const heir = repository({ id: 'heir' });
    const rows = [row()];
    const input = planInput({
      listing: listing({ repositories: [heir], workbooks: rows }),
      published: [publishedUnder(gone, rows)],
      records: recordMap(record({ missingPasses: 9 })),
      policy: planPolicy({ guard: { targets: deletionLimit.parse('20%', ''), files: OFF } }),
    });
    expect(makePlan(input)).toMatchObject([
      { kind: 'hold', reason: 'path-occupied', target: { repositoryId: 'heir' } },
      { kind: 'hold', reason: 'deletion-guard', target: { repositoryId: gone.id } },
    ]);
    const word = { target: target('main', gone), subject: 'target', digest: null } as const;
    const approvals = new Map([[targetKey(word.target), word]]);
    expect(makePlan({ ...input, approvals }).map(({ kind }) => kind)).toEqual(['pull', 'retire']);
  });
});

describe('a version that would delete too many files', () => {
  const rows = [row({ versionId: 'v2' })];
  const tree = published(repository(), { fingerprint: 'another', fileCount: 10 });
  const policy = planPolicy({ guard: { targets: OFF, files: deletionLimit.parse('50%', '') } });
  const input = planInput({ listing: listing({ workbooks: rows }), published: [tree], policy });
  const [wanted] = makePlan(input);
  const held = {
    subject: 'files',
    deletions: 8,
    of: 10,
    digest: 'd',
    sinceMs: NOW_MS - 1000,
    nextLookAtMs: NOW_MS + 1000,
    fingerprint: wanted?.fingerprint ?? null,
    first: [],
  } as const;
  const planned = (fields: Partial<typeof input>, of: Parameters<typeof record>[0] = { held }): string[] =>
    makePlan(planInput({ ...input, records: recordMap(record(of)), ...fields })).map(
      ({ kind, reason }) => `${kind} ${reason}`,
    );

  it('is not downloaded again only to be held again', () => {
    expect(planned({})).toEqual(['hold deletion-guard']);
    expect(planned({ retries: 'all' as const })).toEqual(['hold deletion-guard']);
  });

  it('is pulled after an approval, a change, a higher limit or some time', () => {
    const pulled = ['pull versions-changed'];
    const approving = (digest: string): Partial<typeof input> => ({
      approvals: new Map([[targetKey(target()), { target: target(), subject: 'files', digest }]]),
    });
    expect(planned(approving('d'))).toEqual(pulled);
    expect(planned(approving('e'))).toEqual(['hold deletion-guard']);
    expect(planned({ listing: listing({ workbooks: [row({ versionId: 'v3' })] }) })).toEqual(pulled);
    expect(planned({ policy: planPolicy() })).toEqual(pulled);
    expect(planned({ nowMs: NOW_MS + 2000 })).toEqual(pulled);
    expect(planned({ nowMs: NOW_MS - 2000 })).toEqual(pulled);
  });

  it('backs off like any other when its pull fails', () => {
    expect(planned({ nowMs: NOW_MS + 2000 }, { held, failure: failure() })).toEqual(['hold backing-off']);
  });
});

it('files that only moved are paired by path if several have the same bytes', () => {
  const same = (...paths: readonly string[]): ManifestFile[] =>
    paths.map((path) => manifestFile(path, { sha256: '1' }));
  const moved = movedFiles(same('c', 'a', 'b'), [...same('y', 'x'), manifestFile('z', { sha256: '2' })]);
  expect([...moved].map(([from, { path }]) => [from, path])).toEqual([
    ['a', 'x'],
    ['b', 'y'],
  ]);
});
