import { readdir } from 'node:fs/promises';

import { describe, expect, it } from 'vitest';

import { type MirrorHarness, startMirrored, startPair, treeOf } from '../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { buildZip, type ZipEntry } from '../../../support/zip-builder.ts';

const FILES = {
  'a.xlsx': 'a',
  'deep/er/b.xlsm': 'b'.repeat(100_000),
  'deep/notes.txt': 'n',
  'grö\u00DFe.xlsx': 'g',
  empty: '',
};

it('large files of several targets are unpacked at once, and not written again while they are the same', async () => {
  const { service, mirror } = await startPair({ compression: 'deflated' }, { CONTENT: 'all' });
  const large = (mark: number): Buffer => {
    const bytes = Buffer.alloc(3_000_000, 'many bytes that repeat ');
    for (let at = 0; at < bytes.length - 4; at += 1000) bytes.writeUInt32LE(at * mark, at);
    return bytes;
  };
  for (const name of ['One', 'Two', 'Three']) {
    const repository = service.addRepository(name, { 'small.xlsx': name, 'other.txt': 'o' });
    for (const mark of [1, 2]) service.write(repository, 'main', `${mark}.xlsx`, large(mark * name.length));
  }
  expect((await mirror.exactPass()).exitCode).toBe(0);
  const before = await mirror.stamps();
  const { summary } = await mirror.pass({ aheadMs: 4 * 24 * 3_600_000 });
  expect(summary).toMatchObject({ pulled: 3, changed: 0, failed: 0 });
  expect(await mirror.stamps()).toStrictEqual(before);
});

it('an archive without entries is retried if workbooks are listed', async () => {
  const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body: buildZip([]) } : null);
  const results = await mirror.results();
  expect(results['Accounting/main']).toMatchObject({ code: 'contents.empty', errorAction: 'retry' });
  await mirror.expectExact({ 'Accounting/main': treeOf({ 'a.xlsx': 'a' }) });
});

describe('the one leading folder', () => {
  it('is removed without a list of workbooks too, even from contents in one folder', async () => {
    const { service, mirror } = await startPair({ v1: '404', leadingFolder: 'Reports' });
    service.addRepository('Wide', FILES);
    service.addRepository('Narrow', { 'Reports/a.xlsx': 'a', 'Reports/b/c.xlsx': 'c' });
    service.addRepository('Single', { 'a.xlsx': 'a' });
    await mirror.exactPass();
  });

  it('is removed even if the file that the service is asked about was deleted since', async () => {
    const { service, mirror } = await startPair({ v1: '404', leadingFolder: 'Reports' });
    const repository = service.addRepository('Wide', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
    service.fault = (path) => {
      if (path.includes('/contents/')) service.remove(repository, 'main', 'a.xlsx');
      return null;
    };
    await mirror.pass();
    expect((await mirror.tree('Wide/HEAD')).has('b.xlsx')).toBe(true);
  });

  it('is kept without a list of workbooks too, if it belongs to the contents', async () => {
    const { service, mirror } = await startPair({ v1: '404' });
    service.addRepository('Narrow', { 'Reports/a.xlsx': 'a', 'Reports/b/c.xlsx': 'c' });
    service.addRepository('Twice', { 'Reports/Reports/a.xlsx': 'a' });
    service.addRepository('Nested', {
      'src/src/index.ts': 'inner',
      'src/index.ts': 'outer',
      'src/main.ts': 'm',
    });
    service.addRepository('Texts', { 'docs/readme.md': 'r' });
    await mirror.exactPass();
  });

  it('may have another name every time', async () => {
    const { service, mirror } = await startPair({ leadingFolder: 'plan-1' });
    const repository = service.addRepository('Accounting', { ...FILES });
    await mirror.pass();
    const before = await mirror.stamps();
    service.knobs.leadingFolder = 'plan-2';
    service.write(repository, 'main', 'a.xlsx', 'a2');
    await mirror.exactPass();
    expect((await mirror.stamps())['Accounting/main/deep/notes.txt']).toBe(
      before['Accounting/main/deep/notes.txt'],
    );
  });

  it('is not assumed for a folder into which everything moved after the listing', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
    await mirror.pass();
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.knobs.beforeDownload = () => {
      for (const name of ['a.xlsx', 'b.xlsx']) {
        service.remove(repository, 'main', name);
        service.write(repository, 'main', `Old/${name}`, name);
      }
      service.knobs.beforeDownload = null;
    };
    // The list still shows the old places: the next one agrees with the contents.
    for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
    await mirror.expectExact();
  });
});

/** A mirror that pulled an archive of these entries. */
async function pulled(entries: readonly ZipEntry[]): Promise<MirrorHarness> {
  const { service, mirror } = await startPair();
  service.addRepository('Accounting', { 'a.xlsx': 'a', 'x/b.xlsx': 'b' });
  const body = buildZip(entries);
  service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body } : null);
  expect((await mirror.exactPass()).exitCode).toBe(0);
  return mirror;
}

const ENTRIES: readonly ZipEntry[] = [
  { name: 'a.xlsx', data: 'a' },
  { name: 'x/b.xlsx', data: 'b' },
];

it('a link is omitted, named in the manifest and in the log, and not followed', async () => {
  const outside = await temporaryFolder();
  const mirror = await pulled([
    ...ENTRIES,
    { name: 'link', data: outside, mode: 0o120777 },
    { name: 'x/up', data: '../../../..', mode: 0o120777 },
  ]);
  expect((await mirror.manifest('Accounting/main')).skipped).toStrictEqual([
    { path: 'link', reason: 'symbolic-link' },
    { path: 'x/up', reason: 'symbolic-link' },
  ]);
  expect(mirror.eventsOf('target.skipped_entries')).toMatchObject([{ count: 2 }]);
  expect(await readdir(outside)).toStrictEqual([]);
});

it('a link in an archive with one leading folder is named without that folder', async () => {
  const wrapped = [...ENTRIES, { name: 'link', data: '/etc', mode: 0o120777 }];
  const mirror = await pulled(
    wrapped.map((entry) => Object.assign({}, entry, { name: `plan/${String(entry.name)}` })),
  );
  expect((await mirror.manifest('Accounting/main')).skipped).toMatchObject([{ path: 'link' }]);
});

it.each(['folder', 'y/folder'])(
  'an entry that only the directory calls a folder makes no file: %s',
  async (name) => void (await pulled([...ENTRIES, { name, data: '', mode: 0o040755 }])),
);

it('names that the program uses itself are valid', async () => {
  const { service, mirror } = await startPair();
  const names = [
    'journal.json',
    'manifest.json',
    'archive.zip',
    'tree/tree',
    '.workbook-mirror/lock',
    'mirror/x',
  ];
  service.addRepository('Accounting', Object.fromEntries(['a.xlsx', ...names].map((name) => [name, name])));
  await mirror.exactPass();
});
