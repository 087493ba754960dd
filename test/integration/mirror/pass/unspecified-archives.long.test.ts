import { describe, expect, it } from 'vitest';

import { type FakeKnobs } from '../../../support/fake-service.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { startPair, treeOf } from '../../../support/mirror-harness.ts';

const FILES = {
  'a.xlsx': 'a',
  'deep/er/b.xlsm': 'b'.repeat(100_000),
  'deep/notes.txt': 'n',
  'grö\u00DFe.xlsx': 'g',
  empty: '',
};

describe('an archive is unpacked exactly', () => {
  const variations: readonly [string, Partial<FakeKnobs>][] = [
    ['chunked, without a length', { length: 'chunked' }],
    ['with a length', { length: 'content-length' }],
    ['stored', { compression: 'stored' }],
    ['deflated', { compression: 'deflated' }],
    ['zip64', { zip64: true }],
    ['with data descriptors', { dataDescriptors: true }],
    [
      'zip64 with data descriptors, stored, chunked',
      { zip64: true, dataDescriptors: true, length: 'chunked' },
    ],
    ['with folder entries', { folderEntries: true }],
    ['with one leading folder', { leadingFolder: 'plan-0123abc' }],
    ['with one leading folder and folder entries', { leadingFolder: 'plan', folderEntries: true }],
    ['gzipped unasked', { contentEncoding: 'gzip' }],
    ['gzipped unasked and chunked', { contentEncoding: 'gzip', length: 'chunked' }],
  ];
  it.each(variations)('%s', async (_name, knobs) => {
    const { service, mirror } = await startPair(knobs);
    const repository = service.addRepository('git.example.com/org/plan.git', FILES);
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.remove(repository, 'main', 'deep/notes.txt');
    await mirror.pass();
    await mirror.expectExact();
  });

  it.each(['stored', 'deflated'] as const)(
    'with several great files in several targets at once (%s)',
    async (compression) => {
      const { service, mirror } = await startPair({ compression });
      const great = (mark: number): Buffer => {
        const bytes = Buffer.alloc(5_000_000, 'many bytes that repeat ');
        for (let at = 0; at < bytes.length - 4; at += 1000) bytes.writeUInt32LE(at * mark, at);
        return bytes;
      };
      for (const name of ['One', 'Two', 'Three']) {
        const repository = service.addRepository(name, { 'small.xlsx': name, 'other.txt': 'o' });
        for (let mark = 1; mark <= 3; mark += 1) {
          service.write(repository, 'main', `${mark}.xlsx`, great(mark * name.length));
        }
      }
      expect((await mirror.pass()).exitCode).toBe(0);
      await mirror.expectExact();
      const before = await mirror.stamps();
      for (const repository of service.repositories)
        service.write(repository, 'main', '2.xlsx', great(2 * repository.name.length));
      await mirror.pass();
      await mirror.expectExact();
      expect(await mirror.stamps()).toStrictEqual(before);
    },
  );

  it.each([false, true])('without entries, if no workbook is listed (zip64: %s)', async (zip64) => {
    const { service, mirror } = await startPair({ emptyRepository: 'empty-archive', zip64 });
    service.addRepository('Empty');
    await mirror.pass();
    await mirror.expectExact();
  });

  it('but not without entries, if workbooks are listed', async () => {
    const { service, mirror } = await startPair();
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a' });
    await mirror.pass();
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body: buildZip([]) } : null);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'contents.empty', errorAction: 'retry' });
    await mirror.expectExact({ 'Accounting/main': treeOf({ 'a.xlsx': 'a' }) });
  });
});

describe('the one leading folder', () => {
  const withoutList: Partial<FakeKnobs> = { v1: '404' };

  it.each([
    ['with a list of workbooks', {}],
    ['without a list of workbooks', withoutList],
  ])('is removed, even from contents in one folder (%s)', async (_name, knobs) => {
    const { service, mirror } = await startPair({ ...knobs, leadingFolder: 'Reports' });
    service.addRepository('Wide', FILES);
    service.addRepository('Narrow', { 'Reports/a.xlsx': 'a', 'Reports/b/c.xlsx': 'c' });
    service.addRepository('Single', { 'a.xlsx': 'a' });
    await mirror.pass();
    await mirror.expectExact();
  });

  it.each([
    ['with a list of workbooks', {}],
    ['without a list of workbooks', withoutList],
  ])('is kept if it belongs to the contents (%s)', async (_name, knobs) => {
    const { service, mirror } = await startPair(knobs);
    service.addRepository('Narrow', { 'Reports/a.xlsx': 'a', 'Reports/b/c.xlsx': 'c' });
    service.addRepository('Twice', { 'Reports/Reports/a.xlsx': 'a' });
    service.addRepository('Texts', { 'docs/readme.md': 'r' });
    await mirror.pass();
    await mirror.expectExact();
  });

  it('is kept if it belongs to the contents, although the router has a page for every address', async () => {
    const { service, mirror } = await startPair({
      v1: '404',
      references: new Set(['id']),
      unacceptedReference: 'html-200',
    });
    service.addRepository('git.example.com/org/narrow.git', {
      'Reports/a.xlsx': 'a',
      'Reports/b/c.xlsx': 'c',
    });
    await mirror.pass();
    await mirror.expectExact();
  });

  it('may have another name every time', async () => {
    const { service, mirror } = await startPair({ leadingFolder: 'plan-1' });
    const repository = service.addRepository('Accounting', { ...FILES });
    await mirror.pass();
    const before = await mirror.stamps();
    service.knobs.leadingFolder = 'plan-2';
    service.write(repository, 'main', 'a.xlsx', 'a2');
    await mirror.pass();
    await mirror.expectExact();
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
