import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { onTestFinished, describe, expect, it, vi } from 'vitest';

import { type FileChange, makeCommits } from '../../../../src/server/demo/commits.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { createGitLibrary, type GitLibrary } from '../../../../src/server/git/library.ts';
import { createWorkbookListing } from '../../../../src/server/git/listing.ts';
import { readHeads } from '../../../../src/server/git/refs.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/repositories.ts';
import { answerWorkbooks } from '../../../../src/server/http/workbooks.ts';
import { plan, write } from '../../../support/commits.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { bytesOf, makeBook, zipOf } from '../../../support/workbooks.ts';

/** A registry with the bare repository A, which has one workbook on main. */
async function makeBench(content: string | Uint8Array = '0') {
  const registry = await openRegistry(join(await temporaryFolder(), 'data'));
  const git = new Git();
  onTestFinished(async () => {
    await git.stop();
    await registry.close();
  });
  const { id } = await registry.create('A');
  const gitDirectory = registry.gitDirectory(id);
  // To compress a large workbook once more takes a busy machine a minute.
  await git.run(gitDirectory, ['config', 'core.compression', '0']);
  await makeCommits(git, gitDirectory, [plan('main', [write('x.xlsx', content)])]);
  return {
    git,
    registry,
    gitDirectory,
    async commit(changes: readonly FileChange[], branch = 'main') {
      const from = (await readHeads(git, gitDirectory)).get(branch) ?? 'refs/heads/main';
      const [head = ''] = await makeCommits(git, gitDirectory, [plan(branch, changes, { from })]);
      return head;
    },
  };
}

describe('the rows', () => {
  it('keep a bounded part of a commit message, and a valid time', async () => {
    const { git, registry, gitDirectory } = await makeBench();
    const from = (await readHeads(git, gitDirectory)).get('main') ?? '';
    const tree = (await git.run(gitDirectory, ['rev-parse', `${from}^{tree}`])).toString().trim();
    const commit = [
      `tree ${tree}`,
      `author ${'Ä'.repeat(100_000)} <a@example.com> 1 +0000`,
      'committer B <b@example.com> 9000000000000 +0000',
      '',
      'é'.repeat(5_000_000),
    ].join('\n');
    const hash = ['hash-object', '-t', 'commit', '-w', '--stdin', '--literally'];
    const id = (await git.run(gitDirectory, hash, { input: commit })).toString().trim();
    await git.run(gitDirectory, ['update-ref', 'refs/heads/odd', id]);
    const rows = await createWorkbookListing(git, registry).rows();
    expect(rows.map(({ branch, path }) => [branch, path])).toEqual([
      ['main', 'x.xlsx'],
      ['odd', 'x.xlsx'],
    ]);
    expect(rows[1]?.version).toMatchObject({
      author: 'Ä'.repeat(1024),
      createdAt: '9999-12-31T23:59:59+00:00',
      message: 'é'.repeat(65_536),
    });
  });

  it('of an unreadable repository stay as before, and that is reported once', async () => {
    const { git, registry, gitDirectory } = await makeBench();
    await registry.create('B');
    const told: string[] = [];
    const listing = createWorkbookListing(git, registry, (line) => told.push(line));
    const before = await listing.rows();
    expect(before).toHaveLength(1);
    const head = await readFile(join(gitDirectory, 'HEAD'));
    await rm(join(gitDirectory, 'HEAD'));
    expect(await listing.rows()).toBe(before);
    expect(await listing.rows()).toBe(before);
    const [a] = registry.list();
    expect([...listing.unreadable()]).toEqual([a?.id]);
    const unreadable = expect.stringMatching(
      /^A: its workbooks cannot be read: git .*\. They are listed as they were, as being processed\.$/,
    ) as string;
    expect(told).toEqual([unreadable]);
    // The old content is unknown: a short list would mean a deletion.
    const anew = createWorkbookListing(git, registry);
    await expect(anew.rows()).rejects.toMatchObject({ status: 503, code: 'incomplete' });
    const neverThere = registry
      .list()
      .map((row) => Object.assign({}, row, { source: '/x.git', cloned: false }));
    expect(
      await createWorkbookListing(git, {
        gitDirectory: registry.gitDirectory,
        list: () => neverThere,
      }).rows(),
    ).toEqual([]);
    await writeFile(join(gitDirectory, 'HEAD'), head);
    expect(await listing.rows()).toEqual(before);
    expect(await anew.rows()).toEqual(before);
    expect([...listing.unreadable()]).toEqual([]);
    expect(told).toEqual([unreadable, 'A: its workbooks can be read again.']);
  });

  it('of a repository that cannot be read are processing, in the list of all others', async () => {
    const { registry, gitDirectory, git } = await makeBench();
    const { id } = await registry.create('B');
    await makeCommits(git, registry.gitDirectory(id), [plan('main', [write('b.xlsx', '1')])]);
    const library = createGitLibrary(registry);
    onTestFinished(library.close);
    await library.workbooks();
    await rename(gitDirectory, `${gitDirectory}-away`);
    const { rows, statusOf } = await library.workbooks();
    expect(rows.map((row) => [row.id, statusOf(row).status])).toEqual([
      ['A/x.xlsx', 'processing'],
      ['B/b.xlsx', 'success'],
    ]);
  });
});

describe('the status of workbooks', () => {
  const types = (mainPart: string): string =>
    `<Types><Override PartName="${mainPart}" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`;
  const packageOf = (contentTypes: string | Buffer, part = 'xl/workbook.xml'): Buffer =>
    zipOf({ '[Content_Types].xml': contentTypes, [part]: '<workbook/>' });

  const GOOD: Readonly<Record<string, () => Buffer>> = {
    'a.xlsx': () => bytesOf(makeBook(), 'xlsx'),
    'named otherwise.xlsx': () => bytesOf(makeBook(), 'xlsb'),
    'b.xls': () => bytesOf(makeBook(), 'biff8'),
    'old.xls': () => bytesOf(makeBook(), 'biff4'),
    'c.ods': () => bytesOf(makeBook(), 'ods'),
    'parts elsewhere.xlsx': () => packageOf(types('/book/main.xml'), 'book/main.xml'),
    'UTF-16BE.xlsx': () => packageOf(Buffer.from(types('/xl/workbook.xml'), 'utf16le').swap16()),
    'encrypted.xlsx': () => Buffer.from('d0cf11e0a1b11ae1', 'hex'),
    'odd names.xlsx': () => zipOf({ '[Content_Types].xml': types('/x.xml'), '/x.xml': '', '../y.xml': '' }),
    // Too large to be read whole.
    'large.xlsx': () =>
      zipOf({ '[Content_Types].xml': types('/x.xml'), 'x.bin': randomBytes(65 * 1024 * 1024) }),
  };

  const BAD: Readonly<Record<string, readonly [string, () => Buffer]>> = {
    'empty.xlsx': ['foreign', () => Buffer.alloc(0)],
    'pointer.xlsx': ['foreign', () => Buffer.from('version https://git-lfs.github.com/spec/v1\n')],
    'table.xlsx': ['foreign', () => bytesOf(makeBook(), 'html')],
    'page.xls': ['foreign', () => Buffer.from('<html>Log in</html>')],
    'letter.xlsx': ['foreign', () => packageOf('<Types ContentType="…wordprocessingml.document.main+xml"/>')],
    'zip.xlsx': ['foreign', () => zipOf({ 'a.txt': 'a' })],
    'a.ods': ['foreign', () => bytesOf(makeBook(), 'xlsx')],
    'cut.xlsx': ['damaged', () => bytesOf(makeBook(), 'xlsx').subarray(0, 1000)],
  };

  async function statuses(library: GitLibrary): Promise<Record<string, string>> {
    const { rows, statusOf } = await library.workbooks();
    return Object.fromEntries(rows.map((row) => [row.path, statusOf(row).status]));
  }

  /** A library with checks, and its reports of failed workbooks: path and finding. */
  function checkedLibrary(registry: Registry): { library: GitLibrary; failed: string[] } {
    const words: Readonly<Record<string, string>> = {
      'it is not a workbook, although it is named like one': 'foreign',
      'it is damaged': 'damaged',
      'git cannot read it': 'unread',
    };
    const failed: string[] = [];
    const tell = (line: string): void => {
      const [, path, why = ''] =
        /^The workbook A\/(.*) failed, version [0-9a-f]{12}: (.*)\.$/.exec(line) ?? [];
      failed.push(`${path} ${words[why]}`);
    };
    return { library: createGitLibrary(registry, { hasChecks: true, tell }), failed };
  }

  it('is processing until a file was checked, and then success for every file that its owner can open', async () => {
    const bench = await makeBench(bytesOf(makeBook(), 'xlsx'));
    const changes: FileChange[] = [];
    for (const [path, make] of Object.entries(GOOD)) changes.push(write(path, make()));
    for (const [path, [, make]] of Object.entries(BAD)) changes.push(write(path, make()));
    await bench.commit(changes);
    const { library, failed } = checkedLibrary(bench.registry);
    onTestFinished(library.close);
    expect(new Set(Object.values(await statuses(library)))).toEqual(new Set(['processing']));
    await library.checkAll();
    expect(await statuses(library)).toEqual({
      'x.xlsx': 'success',
      ...Object.fromEntries(Object.keys(GOOD).map((path) => [path, 'success'])),
      ...Object.fromEntries(Object.keys(BAD).map((path) => [path, 'failure'])),
    });
    expect(failed.sort()).toEqual(
      Object.entries(BAD)
        .map(([path, [finding]]) => `${path} ${finding}`)
        .sort(),
    );

    const ask = async (query: string): Promise<unknown[]> => {
      const { body } = await answerWorkbooks(library, new URL(`http://h/api/v1/workbooks${query}`), 2);
      const text = body === null || 'open' in body ? '' : Buffer.from(body.bytes).toString();
      const { count, next, results } = JSON.parse(text) as {
        count: number;
        next: string | null;
        results: Array<{ name: string; version: { status: string }; status: unknown }>;
      };
      return [count, next, ...results.map(({ name, version, status }) => [name, version.status, status])];
    };
    const failure = { processing: 0, failure: 1 };
    expect(await ask('?status=failure&q=T')).toEqual([
      5,
      'http://h/api/v1/workbooks?status=failure&q=T&page=2',
      ['/cut.xlsx', 'failure', failure],
      ['/empty.xlsx', 'failure', failure],
    ]);
    expect(await ask('?status=failure&q=/PAGE')).toEqual([1, null, ['/page.xls', 'failure', failure]]);
    expect(await ask('?status=processing')).toEqual([0, null]);
    expect(await ask('?q=C.ODS')).toEqual([1, null, ['/c.ods', 'success', { processing: 0, failure: 0 }]]);
  });

  it('is checked once for each content, even of files that arrive during checks', async () => {
    const bench = await makeBench('text');
    const { library, failed } = checkedLibrary(bench.registry);
    onTestFinished(library.close);
    await library.workbooks();
    await bench.commit([write('again.xlsx', 'text'), write('other.xlsx', 'other')]);
    await library.checkAll();
    await bench.commit([write('third.xlsx', 'text')]);
    await library.checkAll();
    expect(failed.filter((line) => !line.startsWith('other.xlsx'))).toHaveLength(1);
    expect(new Set(Object.values(await statuses(library)))).toEqual(new Set(['failure']));
  });

  it('fails if git cannot read a file', async () => {
    const bench = await makeBench('gone');
    const { git, gitDirectory } = bench;
    const blob = (await git.run(gitDirectory, ['rev-parse', 'refs/heads/main:x.xlsx'])).toString().trim();
    await rm(join(gitDirectory, 'objects', blob.slice(0, 2), blob.slice(2)));
    const { library, failed } = checkedLibrary(bench.registry);
    onTestFinished(library.close);
    await library.checkAll();
    expect(failed).toEqual(['x.xlsx unread']);
    expect(await statuses(library)).toEqual({ 'x.xlsx': 'failure' });
  });

  it('is processing while the repository is fetched', async () => {
    const bench = await makeBench('x');
    const isFetching = vi.spyOn(bench.registry.fetches, 'isFetching').mockReturnValue(true);
    const library = createGitLibrary(bench.registry);
    onTestFinished(library.close);
    expect(await statuses(library)).toEqual({ 'x.xlsx': 'processing' });
    isFetching.mockRestore();
    expect(await statuses(library)).toEqual({ 'x.xlsx': 'success' });
  });
});
