import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { LogEntry, LoggedState, LogSource } from '../../../src/app/change-log.ts';
import { logOf, mergedLog } from '../../../src/app/change-log.ts';
import { manifestFile, manifestWith } from '../../support/builders.ts';

type Contents = Readonly<Record<string, string>>;

/** A state that was published at a time, and left a millisecond before the next one, or when it was let go. */
function state(contents: Contents, publishedAtMs: number, left: LoggedState['left']): LoggedState {
  const files = Object.entries(contents).map(([path, sha256]) => manifestFile(path, { sha256 }));
  return { manifest: manifestWith({ files, publishedAtMs }), left };
}

async function taken<T>(items: AsyncIterable<T>, most = Number.POSITIVE_INFINITY): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
    if (all.length === most) break;
  }
  return all;
}

/** Makes the changes of an entry to the contents of a tree. @param published the contents of each state, by its time */
function replayed(before: Contents, entry: LogEntry, published: Map<number, Contents>): Contents {
  const { kind, atMs, differences } = entry;
  if (kind === 'retired') return {};
  if (kind === 'published') return published.get(atMs) ?? {};
  const after = { ...before };
  for (const { path, movedFrom } of differences) {
    Reflect.deleteProperty(after, path);
    if (movedFrom !== null) Reflect.deleteProperty(after, movedFrom);
  }
  for (const { path, after: file } of differences) if (file?.sha256) after[path] = file.sha256;
  return after;
}

const contents = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.constantFrom('1', '2', '3'));
const kinds = fc.constantFrom('replaced', 'approved', 'retired');

describe('the log of a target', () => {
  it('begins again if another repository had its name before', async () => {
    const later = state({ a: '1' }, 10, null);
    const { manifest } = later;
    const renamed = { ...manifest, repository: { ...manifest.repository, id: 'another' } };
    const before = state({ b: '1' }, 0, { kind: 'replaced', atMs: 9 });
    const log = await taken(logOf('A/main', [{ ...later, manifest: renamed }, before]));
    expect(log.map(({ kind, atMs }) => [kind, atMs])).toEqual([
      ['published', 10],
      ['published', 0],
    ]);
  });

  it('gives the newest state when it is replayed from the oldest one', async () => {
    const histories = fc.array(fc.tuple(contents, kinds), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(histories, fc.boolean(), async (history, isMirrored) => {
        const states = history.map(([files, kind], at) => {
          const isLast = at === history.length - 1;
          if (isLast && isMirrored) return state(files, at * 10, null);
          // An approved deletion is kept as a retired state, and its successor exists before.
          const atMs = kind === 'retired' || isLast ? at * 10 + 5 : at * 10 + 11;
          const leaving = kind === 'replaced' && !isLast ? 'replaced' : 'retired';
          return state(files, at * 10, { kind: leaving, atMs });
        });
        const published = new Map(history.map(([files], at) => [at * 10, files] as const));
        const log = (await taken(logOf('A/main', states.toReversed()))).toReversed();
        const end = log.reduce((tree, entry) => replayed(tree, entry, published), {});
        expect(end).toEqual(isMirrored ? history.at(-1)?.[0] : {});
        expect(log.map(({ atMs }) => atMs)).toEqual(log.map(({ atMs }) => atMs).sort((a, b) => a - b));
        expect(log[0]).toMatchObject({ kind: 'published', atMs: 0 });
      }),
    );
  });

  it('names approvals with their authors, and the author of each change', async () => {
    const said = { id: 'w', message: 'm', createdAt: null, action: null, parentId: null };
    const file = (versionId: string, author: string) =>
      manifestFile('a', { sha256: versionId, workbook: { ...said, versionId, author } });
    const now = manifestWith({ files: [file('v2', 'anna')], publishedAtMs: 20 });
    const before = manifestWith({ files: [file('v1', 'ben'), manifestFile('b')], publishedAtMs: 10 });
    const states: LoggedState[] = [
      { manifest: now, left: null },
      { manifest: before, left: { kind: 'retired', atMs: 21 } },
    ];
    const [approved, changed, first] = await taken(logOf('A/main', states));
    expect([approved?.kind, first?.kind]).toEqual(['approved', 'published']);
    expect(changed?.differences[0]).toMatchObject({
      before: { workbook: { versionId: 'v1' } },
      after: { workbook: { versionId: 'v2', author: 'anna' } },
    });
  });
});

it('the logs of many targets are merged by time, and read no further than is taken', async () => {
  let read = 0;
  const nothing = { files: 0, approval: null, held: null, differences: [] };
  const source = (target: string, times: readonly number[]): LogSource => ({
    target,
    lastAtMs: times[0] ?? 0,
    read: function* () {
      for (const atMs of times) {
        read += 1;
        yield { ...nothing, target, atMs, kind: 'changed' } as const;
      }
    },
  });
  const times = Array.from({ length: 1000 }, (_, at) => [1000 - at, 500 - at]);
  const latest = await taken(mergedLog(times.map((each, at) => source(`A/${at}`, each))), 10);
  expect(latest.map(({ atMs }) => atMs)).toEqual([1000, 999, 998, 997, 996, 995, 994, 993, 992, 991]);
  expect(read).toBeLessThanOrEqual(20);
});
