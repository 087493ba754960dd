import { execFileSync } from 'node:child_process';
import { appendFile, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import type { Content, Repository } from '../../../../src/server/http/library.ts';
import type { ReplicaLibrary } from '../../../../src/server/replica/library.ts';
import { emptyRecord } from '../../../../src/mirror/plan/record.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import { MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { rot } from '../../../support/published.ts';
import { contentsOf, KEY, replicaLibrary, startReplica, TOKEN } from '../../../support/replica.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const pauses = vi.hoisted(() => ({ areShort: false }));

vi.mock(import('node:timers/promises'), async (importOriginal) => {
  const original = await importOriginal();
  const sleep: typeof original.setTimeout = (ms, ...rest) =>
    original.setTimeout(pauses.areShort ? 1 : ms, ...rest);
  return { ...original, setTimeout: sleep };
});

/** A state that stays wrong is read many times, with pauses in between. */
function shortenPauses(): () => void {
  pauses.areShort = true;
  return () => {
    pauses.areShort = false;
  };
}

const BOOK = 'Budget 2026.xlsx';
const BOOK_PATH = `/repos/Accounting/contents/${encodeURIComponent(BOOK)}`;

/** A mirror of a repository with a folder, a workbook and a text, and a replica of it. */
async function setUp(
  files: Record<string, string> = { [BOOK]: 'book', 'notes/a.txt': 'text', 'notes/b.xlsx': 'b' },
) {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('Accounting');
  for (const [path, content] of Object.entries(files)) service.write(repository, 'main', path, content);
  await mirror.pass();
  const replica = await startReplica(mirror.directory);
  return { service, repository, mirror, replica };
}

function treeOf({ directory }: MirrorHarness): string {
  return join(directory, 'mirror/Accounting/main');
}

async function bytesOf(content: Content): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of content.open(new AbortController().signal)) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** A path of the only repository. */
async function contentOf(
  library: ReplicaLibrary,
  path: string,
  { signal } = new AbortController(),
): Promise<Content> {
  return library.content({ repository: await only(library), branch: 'main', path, signal });
}

/** Begins to read a path of the only repository. @returns the rest, after the first piece */
async function begin(
  library: ReplicaLibrary,
  path: string,
  client = new AbortController(),
): Promise<AsyncIterator<Uint8Array>> {
  const reading = (await contentOf(library, path, client)).open(client.signal)[Symbol.asyncIterator]();
  expect((await reading.next()).done).toBe(false);
  return reading;
}

async function only(library: { repositories: () => Promise<readonly Repository[]> }): Promise<Repository> {
  const [repository] = await library.repositories();
  if (repository === undefined) throw new Error('there is no repository');
  return repository;
}

describe('a replica', () => {
  it('gives a file as it is, with a tag, a range of it, and when it was verified', async () => {
    const { replica, mirror } = await setUp();
    const answer = await replica.ask(BOOK_PATH);
    expect(await answer.text()).toBe('book');
    const { verified_at } = await mirror.manifest('Accounting/main');
    expect(answer.headers.get('last-verified')).toBe(verified_at);
    const etag = answer.headers.get('etag') ?? '';
    expect((await replica.ask(BOOK_PATH, { 'if-none-match': etag })).status).toBe(304);
    const part = await replica.ask(BOOK_PATH, { range: 'bytes=1-2' });
    expect([part.status, await part.text()]).toEqual([206, 'oo']);
  });

  it('says by its record when an unchanged target was verified', async () => {
    const { mirror } = await setUp();
    const { repository, published_at } = await mirror.manifest('Accounting/main');
    const target = { repositoryId: repository.id, branch: 'main' };
    const verifiedAtMs = Date.now();
    const verifiedAt = new Date(verifiedAtMs).toISOString();
    const record = { ...emptyRecord(target), publishedAtMs: Date.parse(published_at), verifiedAtMs };
    const ours = await startReplica(mirror.directory, { records: new Map([[targetKey(target), record]]) });
    expect((await ours.ask('/repos')).headers.get('last-verified')).toBe(verifiedAt);
    const other = { ...record, publishedAtMs: 1 };
    const theirs = await startReplica(mirror.directory, { records: new Map([[targetKey(target), other]]) });
    expect((await theirs.ask('/repos')).headers.get('last-verified')).not.toBe(verifiedAt);
  });

  it('refuses every change, and has no v1 without a token', async () => {
    const { replica, mirror } = await setUp();
    const answer = await fetch(`${replica.baseUrl}/repos`, {
      method: 'POST',
      headers: { 'x-api-key': 'a-key-of-the-replica', 'content-type': 'application/json' },
      body: '{"name":"x"}',
    });
    expect([answer.status, await answer.json()]).toMatchObject([403, { error: { code: 'read_only' } }]);
    for (const path of ['/uploads/repositories', '/git/Accounting.git/info/refs?service=git-upload-pack']) {
      const none = await fetch(new URL(path, replica.baseUrl));
      expect([none.status, await none.json()]).toMatchObject([404, { error: { code: 'not_found' } }]);
    }
    const silent = await startReplica(mirror.directory, { withToken: false });
    expect((await silent.ask('/v1/workbooks')).status).toBe(404);
  });

  it('keeps the rows as long as nothing changed, and sees every publish at once', async () => {
    const { service, repository, mirror, replica } = await setUp();
    const { rows } = await replica.library.workbooks();
    expect((await replica.library.workbooks()).rows).toBe(rows);
    for (let edits = 0; edits < 20; edits += 1) {
      service.write(repository, 'main', BOOK, `book ${edits}`);
      await mirror.pass();
      const ids = (await replica.library.workbooks()).rows.map(({ version }) => version.id);
      expect(ids).not.toEqual(rows.map(({ version }) => version.id));
      expect(await bytesOf(await contentOf(replica.library, BOOK))).toBe(`book ${edits}`);
    }
  });

  it('gives the old tree to its end when a new one takes its place', async () => {
    const { service, repository, mirror, replica } = await setUp();
    const content = await contentOf(replica.library, BOOK);
    const opened = content.open(new AbortController().signal)[Symbol.asyncIterator]();
    service.write(repository, 'main', BOOK, 'new!');
    service.write(repository, 'main', 'notes/a.txt', 'new!');
    await mirror.pass();
    await expect(opened.next()).rejects.toMatchObject({ status: 503 });
    await (await begin(replica.library, '')).return?.();
  });
});

const LONG = 'ä'.repeat(120);
/** Names that are unusual in some way. */
const ODD = [
  '100%.xlsx',
  'a%2Fb.xlsx',
  ' leading and trailing .xlsx ',
  'naïve 資料/ß.XLSX',
  'e\u0301.xlsx',
  `${LONG}/${LONG}.xlsx`,
  'empty.csv',
  'con',
  'deep/a/b/c/d/e/f.xlsx',
];

const REVERTED = 'Accounting/main/a%2Fb.xlsx';

it('a mirror of a replica has the same files, modes and times, with any names, and follows deletions', async () => {
  const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
  const accounting = service.addRepository('Accounting');
  for (const name of ODD) service.write(accounting, 'main', name, name === 'empty.csv' ? '' : name);
  for (const branch of ['feature/x/y', 'FEATURE/x/y']) service.write(accounting, branch, '100%.xlsx', branch);
  const same = service.addRepository('ACCOUNTING', { 'a.xlsx': 'the same name in capitals' });
  service.addRepository('Only text', { 'a.txt': 'no workbook' });
  expect((await mirror.pass()).exitCode).toBe(0);
  const { baseUrl } = await startReplica(mirror.directory);
  const replica = { SERVICE_BASE_URL: baseUrl, SERVICE_API_KEY: KEY, SERVICE_API_TOKEN: TOKEN };
  const open = async (): Promise<MirrorHarness> => {
    const copy = await MirrorHarness.open(service, { ...replica, RETIRE_AFTER_PASSES: '1' });
    onTestFinished(() => copy.close());
    await copy.pass();
    return copy;
  };
  const copy = await open();
  const original = await contentsOf(mirror.directory);
  expect(Object.keys(original)).toContain('Only text/HEAD/a.txt');
  expect(await contentsOf(copy.directory)).toEqual(original);

  service.removeRepository(same);
  accounting.branches.delete('FEATURE/x/y');
  service.write(accounting, 'main', '100%.xlsx', 'changed');
  // There and back: the bytes are the same, the version is another one, and the file keeps its time.
  service.write(accounting, 'main', 'a%2Fb.xlsx', 'a%2Fb.xlsx');
  // A version with the bytes of the one before is believed after a while.
  let exitCode = 1;
  for (let aheadMs = 0; exitCode !== 0 && aheadMs < 60_000; aheadMs += 6000)
    ({ exitCode } = await mirror.pass({ aheadMs }));
  expect(exitCode).toBe(0);
  for (let passes = 0; passes < 2; passes += 1) await copy.pass();
  const after = await contentsOf(mirror.directory);
  expect(Object.keys(after).length).toBeLessThan(Object.keys(original).length);
  expect(await contentsOf(copy.directory)).toEqual(after);
  const later = await contentsOf((await open()).directory);
  for (const each of [after, later]) expect(each[REVERTED]).toBe(original[REVERTED]);
});

describe('a foreign change in the mirror is not served', () => {
  beforeEach(shortenPauses);

  it.each<[string, (tree: string) => Promise<unknown>]>([
    ['other bytes of the same size and time', (tree) => rot(join(tree, BOOK))],
    ['more bytes', (tree) => appendFile(join(tree, BOOK), 'x')],
    ['no file', (tree) => rm(join(tree, BOOK))],
    [
      'a link to the same bytes',
      async (tree) => {
        await rename(join(tree, BOOK), `${tree}-elsewhere`);
        await symlink(`${tree}-elsewhere`, join(tree, BOOK));
      },
    ],
    [
      'a folder',
      async (tree) => {
        await rm(join(tree, BOOK));
        await mkdir(join(tree, BOOK));
      },
    ],
  ])('%s', async (_what, change) => {
    const { mirror, replica } = await setUp();
    await change(treeOf(mirror));
    for (const [target, headers] of [
      [BOOK_PATH, {}],
      [BOOK_PATH, { range: 'bytes=1-2' }],
      ['/repos/Accounting/contents', {}],
    ] as const) {
      const answer = await replica.ask(target, headers);
      expect(answer.status).toBe(503);
      // Clients take it for the whole service (RFC 9110, section 15.6.4).
      expect(answer.headers.get('retry-after')).toBeNull();
      expect(await answer.text()).not.toContain('ook');
    }
    expect(replica.trouble[0]).toMatchObject({ target: 'Accounting/main', path: BOOK });
    const other = await replica.ask('/repos/Accounting/contents/notes/a.txt');
    expect([other.status, await other.text()]).toEqual([200, 'text']);
  });

  it.each(['Accounting', 'Accounting/main', 'Accounting/main/notes'])('what %s links to', async (folder) => {
    const { mirror, replica } = await setUp();
    const place = join(mirror.directory, 'mirror', folder);
    const elsewhere = join(await temporaryFolder(), 'elsewhere');
    await cp(place, elsewhere, { recursive: true, preserveTimestamps: true });
    await rm(place, { recursive: true });
    await symlink(elsewhere, place);
    expect((await replica.ask('/repos/Accounting/contents/notes/a.txt')).status).toBe(503);
    expect((await replica.ask('/repos/Accounting/contents')).status).toBe(503);
  });

  it('a file outside the manifest', async () => {
    const { mirror, replica } = await setUp();
    await writeFile(join(treeOf(mirror), 'secret.txt'), 'secret');
    expect((await replica.ask('/repos/Accounting/contents/secret.txt')).status).toBe(404);
    const archive = await replica.ask('/repos/Accounting/contents');
    expect(await archive.text()).not.toContain('secret');
  });

  it('breaks an answer off that has begun', async () => {
    const big = 'z'.repeat(600_000);
    const { mirror, replica } = await setUp({ 'a.xlsx': big, 'b.xlsx': big });
    const reading = await begin(replica.library, '');
    await rot(join(treeOf(mirror), 'b.xlsx'));
    const rest = async (): Promise<void> => {
      while ((await reading.next()).done !== true);
    };
    await expect(rest()).rejects.toMatchObject({ status: 503 });
    expect(replica.trouble).toMatchObject([{ path: 'b.xlsx' }]);
  });
});

it('a client that is gone has nothing more read for it', async () => {
  const { replica } = await setUp({ 'a.xlsx': 'z'.repeat(3_000_000) });
  const gone = new AbortController();
  const reading = await begin(replica.library, 'a.xlsx', gone);
  gone.abort(new Error('gone'));
  await expect(reading.next()).rejects.toThrow('gone');
  await expect(contentOf(replica.library, 'a.xlsx', gone)).rejects.toThrow('gone');
});

it('a mirror restored from a backup without private files and with other times is served', async () => {
  const { mirror } = await setUp();
  const copy = join(await temporaryFolder(), 'copy');
  for (const folder of ['mirror', 'manifests'])
    await cp(join(mirror.directory, folder), join(copy, folder), { recursive: true });
  const replica = await startReplica(copy);
  expect((await replica.ask('/repos/Accounting/contents')).status).toBe(200);
  const file = await replica.ask('/repos/Accounting/contents/notes/a.txt', { range: 'bytes=0-1' });
  expect(await file.text()).toBe('te');
});

describe('lists that would be short', () => {
  beforeEach(shortenPauses);

  it('are refused when a manifest cannot be understood; contents are given', async () => {
    const { mirror, replica } = await setUp();
    const bad = join(mirror.directory, 'manifests/Accounting/dev.json');
    await writeFile(bad, '{"format": 99}');
    const list = await replica.ask('/repos');
    expect([list.status, list.headers.get('retry-after')]).toEqual([503, null]);
    expect((await replica.ask('/repos/Accounting/contents/notes/a.txt')).status).toBe(200);
    for (const path of ['/repos/Accounting/contents?branch=dev', '/repos/Other/contents']) {
      const contents = await replica.ask(path);
      expect([contents.status, contents.headers.get('retry-after')]).toEqual([503, null]);
    }
    await rm(bad);
    expect((await replica.ask('/repos')).status).toBe(200);
    expect((await replica.ask('/repos/Accounting/contents?branch=dev')).status).toBe(404);
  });

  it.each<[string, (manifests: string) => Promise<unknown>]>([
    ['a manifest is gone', (manifests) => rm(join(manifests, 'Accounting/main.json'))],
    [
      'a manifest is a link',
      async (manifests) => {
        await rename(join(manifests, 'Accounting/main.json'), join(manifests, '../moved'));
        await symlink('../../moved', join(manifests, 'Accounting/main.json'));
      },
    ],
    [
      'a manifest is a pipe',
      async (manifests) => {
        await rm(join(manifests, 'Accounting/main.json'));
        execFileSync('mkfifo', [join(manifests, 'Accounting/main.json')]);
      },
    ],
    [
      'the folder of a manifest is a link',
      async (manifests) => {
        await rename(join(manifests, 'Accounting'), join(manifests, '../moved'));
        await symlink('../moved', join(manifests, 'Accounting'));
      },
    ],
  ])('are refused when %s, also by a replica that never saw it', async (_what, change) => {
    const { service, mirror, replica } = await setUp();
    service.write(service.addRepository('Other'), 'main', 'o.xlsx', 'o');
    await mirror.pass();
    expect((await replica.library.repositories()).length).toBe(2);
    await change(join(mirror.directory, 'manifests'));
    await Promise.all(
      [replica.library, replicaLibrary(mirror.directory)].flatMap((library) => [
        expect(library.repositories()).rejects.toMatchObject({ status: 503 }),
        expect(library.workbooks()).rejects.toMatchObject({ status: 503 }),
        expect(library.totals()).resolves.toMatchObject({ unreadable: [expect.any(String)] }),
      ]),
    );
    expect((await replica.ask('/repos/Other/contents')).status).toBe(200);
  });

  it('are refused when the manifest of a tree behind a link is gone', async () => {
    const { service, mirror } = await startPair({}, { PUBLISH: 'link' });
    service.addRepository('Accounting', { 'a.xlsx': 'a' });
    service.addRepository('Other', { 'o.xlsx': 'o' });
    await mirror.pass();
    expect(await replicaLibrary(mirror.directory).repositories()).toHaveLength(2);
    await rm(join(mirror.directory, 'manifests/Accounting/main.json'));
    await expect(replicaLibrary(mirror.directory).repositories()).rejects.toMatchObject({ status: 503 });
  });
});

describe('lists', () => {
  it('are served despite files and empty folders outside all manifests', async () => {
    const { mirror, replica } = await setUp();
    await mkdir(join(mirror.directory, 'mirror/lost+found'));
    await mkdir(join(mirror.directory, 'mirror/Empty/main'), { recursive: true });
    await writeFile(join(mirror.directory, 'mirror/Empty/.DS_Store'), '');
    await writeFile(join(mirror.directory, 'mirror/note.txt'), '');
    expect((await replica.ask('/repos')).status).toBe(200);
  });

  it('are not short while a branch is published for the first time', async () => {
    const { mirror } = await setUp();
    const manifest = join(mirror.directory, 'manifests/Accounting/main.json');
    await rename(manifest, join(mirror.directory, 'staged'));
    const listed = replicaLibrary(mirror.directory).repositories();
    await rename(join(mirror.directory, 'staged'), manifest);
    expect(await listed).toHaveLength(1);
  });

  it('are refused when the disk is gone, and so are contents', async () => {
    const { mirror, replica } = await setUp();
    await rename(join(mirror.directory, 'manifests'), join(mirror.directory, 'away'));
    expect((await replica.ask('/repos')).status).toBe(503);
    expect((await replica.ask('/v1/workbooks', { authorization: 'a-token-of-the-replica' })).status).toBe(
      503,
    );
    const fresh = await startReplica(mirror.directory);
    expect((await fresh.ask('/repos/Accounting/contents')).status).toBe(503);
    expect(replica.trouble[0]).toMatchObject({ target: 'the mirror', path: '' });
    await rename(join(mirror.directory, 'away'), join(mirror.directory, 'manifests'));
    expect((await replica.ask('/repos')).status).toBe(200);
  });

  it('never lack a repository during its rename', async () => {
    const { service, repository, mirror } = await setUp();
    const library = replicaLibrary(mirror.directory);
    const state = { isRunning: true };
    const counts = new Set<number>();
    const reading = (async () => {
      while (state.isRunning) counts.add((await library.repositories()).length);
    })();
    for (let turn = 0; turn < 30; turn += 1) {
      service.renameRepository(repository, `Renamed ${turn}`);
      await mirror.pass();
    }
    state.isRunning = false;
    await reading;
    expect([...counts]).toEqual([1]);
    expect(await only(library)).toMatchObject({ full_name: 'Renamed 29' });
  });
});
