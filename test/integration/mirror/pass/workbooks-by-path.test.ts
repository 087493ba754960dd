import { createHash } from 'node:crypto';
import { lstat, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { crc32 } from 'node:zlib';

import { describe, expect, it } from 'vitest';

import type { FakeKnobs, FakeService } from '../../../support/fake-service.ts';
import { type HarnessSettings, startPair } from '../../../support/mirror-harness.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const DAY_MS = 24 * 3_600_000;

/** Different contents of the same size and CRC-32. */
const SAME_CHECKSUM = [Buffer.from('plumless'), Buffer.from('buckeroo')] as const;

/** Bytes of a workbook that holds a text. */
function workbook(text: string): Buffer {
  return buildZip([{ name: '[Content_Types].xml', data: Buffer.concat([Buffer.from(text), filling(text)]) }]);
}

/** Incompressible bytes, the same for the same text: requests for small workbooks cost more than an archive. */
function filling(text: string): Buffer {
  return createHash('shake256', { outputLength: 64 * 1024 })
    .update(text)
    .digest();
}

type Pair = Awaited<ReturnType<typeof mirrored>>;

/** A mirrored repository of several workbooks. */
async function mirrored(
  fullName: string,
  knobs: Partial<FakeKnobs> = {},
  settings: HarnessSettings = {},
  others: Readonly<Record<string, string>> = {},
) {
  const { service, mirror } = await startPair(knobs, settings);
  const repository = service.addRepository(fullName, others);
  for (const path of ['a.xlsx', 'b.xlsx', 'sub/c.xlsm', 'sub/large.xlsx'])
    service.write(repository, 'main', path, workbook(path));
  expect((await mirror.pass()).exitCode).toBe(0);
  service.takeRequests();
  return { service, mirror, repository };
}

/** The paths below `contents` that were asked for since the last call; the whole contents are the empty text. */
function pathsAskedFor(service: FakeService): string[] {
  return service
    .takeRequests()
    .filter((request) => request.includes('/contents'))
    .map((request) => /\/contents\/?(?<path>[^? ]*)/.exec(request)?.groups?.['path'] ?? '');
}

/** Runs a pass. @returns the paths that it asked for */
async function pathsOfPass({ service, mirror }: Pick<Pair, 'service' | 'mirror'>): Promise<string[]> {
  await mirror.pass();
  return pathsAskedFor(service);
}

async function inodeOf({ mirror }: Pair, path: string): Promise<number> {
  return (await lstat(join(mirror.directory, 'mirror', path))).ino;
}

describe('a new version in a drag-and-drop repository', () => {
  it.each([
    ['with digests', { digests: true }],
    ['without digests', {}],
  ])('is pulled by its path, %s', async (_name, knobs) => {
    const pair = await mirrored('Accounting', knobs);
    const { service, mirror, repository } = pair;
    const before = await inodeOf(pair, 'Accounting/main/a.xlsx');
    service.write(repository, 'main', 'sub/c.xlsm', workbook('changed'));
    expect(await pathsOfPass({ service, mirror })).toStrictEqual(['sub/c.xlsm']);
    await mirror.expectExact();
    expect(await inodeOf(pair, 'Accounting/main/a.xlsx')).toBe(before);
    expect(await pathsOfPass({ service, mirror })).toStrictEqual([]);
  });

  it('has the same time and facts as from the whole contents', async () => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true });
    service.write(repository, 'main', 'a.xlsx', workbook('changed'));
    service.write(repository, 'main', 'd.xlsx', workbook('new'));
    expect((await pathsOfPass({ service, mirror })).sort()).toStrictEqual(['a.xlsx', 'd.xlsx']);
    const { files } = await mirror.manifest('Accounting/main');
    const directory = await temporaryFolder();
    await mirror.restart({ DIRECTORY: directory });
    await mirror.pass();
    const path = relative(join(mirror.directory, 'manifests'), join(directory, 'manifests/Accounting/main'));
    const other = (await mirror.manifest(path)).files;
    expect(files).toStrictEqual(other);
  });

  it('is pulled with the whole contents if the second list shows another version', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    for (const path of ['a.xlsx', 'b.xlsx']) service.write(repository, 'main', path, workbook(`new ${path}`));
    service.knobs.afterPage = () => {
      service.knobs.afterPage = null;
      for (const path of ['b.xlsx', 'sub/c.xlsm'])
        service.write(repository, 'main', path, workbook(`newer ${path}`));
    };
    expect((await pathsOfPass({ service, mirror })).sort()).toStrictEqual(['', 'a.xlsx', 'b.xlsx']);
    await mirror.exactPass();
  });

  it('is pulled with the whole contents if a page of the list is older than the next one', async () => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true, pageSize: 2 });
    service.knobs.afterPage = () => {
      service.knobs.afterPage = null;
      for (const path of ['a.xlsx', 'sub/large.xlsx'])
        service.write(repository, 'main', path, workbook(`new ${path}`));
    };
    expect(await pathsOfPass({ service, mirror })).toStrictEqual(['sub/large.xlsx', '']);
    await mirror.expectExact();
  });

  it('is pulled with the whole contents if another changed one still has its old bytes', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    const old = new Map(repository.branches.get('main')?.files);
    for (const path of ['a.xlsx', 'b.xlsx']) service.write(repository, 'main', path, workbook(`new ${path}`));
    // One of two replicas lags behind.
    let asked = 0;
    service.knobs.contentsOf = () => ((asked += 1) === 2 ? old : undefined);
    expect((await pathsOfPass({ service, mirror })).sort()).toStrictEqual(['', 'a.xlsx', 'b.xlsx']);
    await mirror.expectExact();
  });

  it('is pulled with the whole contents if a cache gives its file, and the list no digest', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    service.write(repository, 'main', 'a.xlsx', workbook('new'));
    const [body, headers] = [workbook('of some other version'), { age: '60' }];
    service.failTimes('a.xlsx', 1, { kind: 'body', body, headers });
    expect(await mirror.results()).toMatchObject({ 'Accounting/main': { outcome: 'pulled' } });
    await mirror.expectExact();
  });

  it('does not bring back an old state from a cache of the list and the file', async () => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true });
    const { files = new Map(), versions = new Map() } = repository.branches.get('main') ?? {};
    const [oldFiles, oldVersions] = [new Map(files), new Map(versions)];
    service.write(repository, 'main', 'a.xlsx', workbook('new'));
    await mirror.pass();
    const trees = service.expectedTrees();
    const published = Object.fromEntries(Object.entries(trees).map(([path, tree]) => [path, new Map(tree)]));
    for (const [path, bytes] of oldFiles) files.set(path, bytes);
    for (const [path, version] of oldVersions) versions.set(path, version);
    service.knobs.headers = { age: '3600' };
    expect(await mirror.results()).toMatchObject({ 'Accounting/main': { code: 'contents.contradicted' } });
    await mirror.expectExact(published);
  });

  it('is pulled with the whole contents if a workbook that is no longer listed still exists', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    const bytes = repository.branches.get('main')?.files.get('a.xlsx') ?? Buffer.alloc(0);
    service.remove(repository, 'main', 'a.xlsx');
    repository.branches.get('main')?.files.set('a.xlsx', bytes);
    expect(await pathsOfPass({ service, mirror })).toContain('');
    await mirror.expectExact();
  });

  it.each([
    ['is not there', { kind: 'status', status: 404 }],
    ['fails', { kind: 'status', status: 500 }],
    ['is another file', { kind: 'body', body: workbook('something else') }],
  ] as const)('is pulled with the whole contents if the response for its path %s', async (_name, fault) => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true });
    service.write(repository, 'main', 'a.xlsx', workbook('changed'));
    service.failTimes('a.xlsx', 9, fault);
    expect(await mirror.results()).toMatchObject({ 'Accounting/main': { outcome: 'pulled' } });
    expect(pathsAskedFor(service).at(-1)).toBe('');
    await mirror.expectExact();
  });

  it('that is reverted does not change the published file', async () => {
    const pair = await mirrored('Accounting', { digests: true });
    const { service, mirror, repository } = pair;
    const before = await inodeOf(pair, 'Accounting/main/a.xlsx');
    service.write(repository, 'main', 'a.xlsx', workbook('a.xlsx'));
    expect(await pathsOfPass({ service, mirror })).toStrictEqual(['a.xlsx']);
    expect(await inodeOf(pair, 'Accounting/main/a.xlsx')).toBe(before);
    await mirror.expectExact();
  });

  it('is pulled with the whole contents if another file of the tree was changed on the disk', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    await writeFile(join(mirror.directory, 'mirror/Accounting/main/b.xlsx'), 'edited by someone');
    service.write(repository, 'main', 'a.xlsx', workbook('changed'));
    expect(await pathsOfPass({ service, mirror })).toStrictEqual(['']);
    await mirror.expectExact();
  });

  it('is pulled with the whole contents if the file is missing with its folder', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    service.write(repository, 'main', 'dir/x.xlsx', workbook('x'));
    await mirror.pass();
    service.write(repository, 'main', 'dir/x.xlsx', workbook('new'));
    repository.branches.get('main')?.files.delete('dir/x.xlsx');
    const aheads = [0, 60_000, 120_000];
    const codes: number[] = [];
    for (const aheadMs of aheads) codes.push((await mirror.pass({ aheadMs })).exitCode);
    expect(codes).toStrictEqual([1, 1, 0]);
    expect([...(await mirror.tree('Accounting/main')).keys()].sort()).toStrictEqual(
      ['a.xlsx', 'b.xlsx', 'sub/c.xlsm', 'sub/large.xlsx'].sort(),
    );
  });

  it('is pulled with the whole contents if the service had not finished the published version', async () => {
    const { service, mirror, repository } = await mirrored('Accounting');
    service.write(repository, 'main', 'a.xlsx', workbook('half processed'));
    Object.assign(service.version(repository, 'main', 'a.xlsx'), { status: 'processing', processing: 1 });
    await mirror.pass();
    repository.branches.get('main')?.files.set('a.xlsx', workbook('processed'));
    Object.assign(service.version(repository, 'main', 'a.xlsx'), { status: 'success', processing: 0 });
    service.write(repository, 'main', 'b.xlsx', workbook('changed'));
    await mirror.exactPass();
  });

  it('leaves changes outside the listing to the full check, which stays due', async () => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true });
    service.write(repository, 'main', 'notes.txt', 'other notes');
    for (const hours of [1, 12, 23]) {
      service.write(repository, 'main', 'a.xlsx', workbook(`changed ${hours}`));
      await mirror.pass({ aheadMs: hours * 3_600_000 });
    }
    service.write(repository, 'main', 'a.xlsx', workbook('changed at last'));
    await mirror.exactPass({ aheadMs: DAY_MS + 60_000 });
  });

  it('leaves the full check due even after a loss of the state', async () => {
    const { service, mirror, repository } = await mirrored('Accounting', { digests: true });
    service.write(repository, 'main', 'notes.txt', 'other notes');
    service.write(repository, 'main', 'a.xlsx', workbook('changed'));
    await mirror.pass({ aheadMs: 11 * 3_600_000 });
    expect((await mirror.tree('Accounting/main')).has('notes.txt')).toBe(false);
    await mirror.context.state.forgetRecords([...(await mirror.context.state.records()).values()]);
    await mirror.exactPass({ aheadMs: DAY_MS + 60_000 });
  });
});

const NAME = 'git.example.com/org/plan.git';

it('a new version in a Git repository is pulled by its path if only workbooks are needed immediately', async () => {
  const others = { 'notes.txt': 'some notes'.padEnd(500) };
  const settings = { CONTENT: 'workbooks' };
  const { service, mirror, repository } = await mirrored(NAME, {}, settings, others);
  service.write(repository, 'main', 'a.xlsx', workbook('changed'));
  expect(await pathsOfPass({ service, mirror })).toStrictEqual(['a.xlsx']);
  await mirror.expectExact();
});

it('everything is pulled with the whole contents if the settings say so', async () => {
  const { service, mirror, repository } = await mirrored('Accounting', {}, { CONTENT: 'all' });
  service.write(repository, 'main', 'a.xlsx', workbook('changed'));
  expect(await pathsOfPass({ service, mirror })).toStrictEqual(['']);
});

it.each([
  ['without entity tags', {}],
  ['with entity tags', { etag: 'strong', conditional: true } as const],
])(
  'a file of the same size and CRC-32 is left to the full check, unless it is a workbook with a new version, %s',
  async (_name, knobs) => {
    const [one, other] = SAME_CHECKSUM;
    expect(crc32(one)).toBe(crc32(other));
    const { service, mirror, repository } = await mirrored('git.example.com/org/plan.git', knobs);
    service.write(repository, 'main', 'notes.txt', one);
    service.write(repository, 'main', 'a.xlsx', one);
    await mirror.pass();
    service.write(repository, 'main', 'notes.txt', other);
    service.write(repository, 'main', 'a.xlsx', other);
    const version = service.version(repository, 'main', 'a.xlsx');
    version.processing = 1;
    await mirror.pass();
    const tree = await mirror.tree('git.example.com/org/plan.git/main');
    expect(tree.get('notes.txt')).toStrictEqual(one);
    expect(tree.get('a.xlsx')).toStrictEqual(other);
    // Its tag does not vouch for bytes that were never compared.
    version.processing = 0;
    await mirror.pass();
    await mirror.exactPass({ aheadMs: DAY_MS + 60_000 });
  },
);

it('a workbook that changed while it was read, and is deleted afterwards, leaves the tree with the next pull', async () => {
  const pair = await mirrored('host.example/plan.git', {}, { CONTENT: 'workbooks' });
  const { service, mirror, repository } = pair;
  service.write(repository, 'main', 'a.xlsx', workbook('a2'));
  service.knobs.afterPage = () => {
    service.knobs.afterPage = null;
    service.write(repository, 'main', 'b.xlsx', workbook('b2'));
  };
  expect(await pathsOfPass(pair)).toContain('');
  service.remove(repository, 'main', 'b.xlsx');
  service.write(repository, 'main', 'a.xlsx', workbook('a3'));
  await mirror.exactPass();
});
