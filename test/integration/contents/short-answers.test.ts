import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { FakeKnobs, FakeRepository } from '../../support/fake-service.ts';
import { startSynced, type Synced } from '../../support/synced.ts';
import { bytesOf, makeBook, partsWith, sheetOf, zipOf } from '../../support/workbooks.ts';

/** An old workbook, as Excel writes it. */
function oldWorkbook(rows: number): Buffer {
  const cells = Array.from({ length: rows }, () => [randomBytes(120).toString('hex')]);
  const bytes = bytesOf(makeBook(cells), 'biff8');
  // Where the allocation table goes on behind the end of the file, Excel has free sectors, and the library ends of chains.
  const tableAt = (bytes.readUInt32LE(72) + 1) * 512;
  const sectors = bytes.length / 512 - 1;
  return bytes.fill(0xff, tableAt + sectors * 4, tableAt + bytes.readUInt32LE(44) * 512);
}

const NEW = await zipOf(partsWith(sheetOf('<sheetData/>'), { 'xl/media/image1.png': randomBytes(200_000) }));
const OLD = oldWorkbook(500);
/** From about seven megabytes on, the header does not name the whole allocation table. */
const LARGE = oldWorkbook(15_000);
expect(LARGE.length).toBeGreaterThan(110 * 128 * 512);

/** The same with other bytes in its middle, which no format looks at. */
function anotherVersion(bytes: Buffer): Buffer {
  const middle = Math.floor(bytes.length / 2);
  return Buffer.concat([bytes.subarray(0, middle), randomBytes(16), bytes.subarray(middle + 16)]);
}

/** A mirrored repository; further answers have no length. */
async function mirrored(
  length: FakeKnobs['length'],
  before: Readonly<Record<string, Buffer>>,
): Promise<Synced & { readonly repository: FakeRepository }> {
  const synced = await startSynced();
  // An archive that makes old workbooks smaller costs less than one of them.
  synced.service.knobs.compression = 'stored';
  const repository = synced.service.addRepository('Accounting');
  for (const [path, bytes] of Object.entries(before)) synced.service.write(repository, 'main', path, bytes);
  expect(await synced.run('sync')).toMatchObject({ exitCode: 0 });
  synced.service.knobs.length = length;
  synced.service.takeRequests();
  return { ...synced, repository };
}

const kinds: readonly [string, string, Buffer][] = [
  ['a new workbook', 'a.xlsx', NEW],
  ['an old workbook', 'a.xls', OLD],
  ['an old workbook of many megabytes', 'a.xls', LARGE],
];

describe.each<FakeKnobs['length']>(['until-closed', 'chunked'])(
  'an answer without a length (%s)',
  (length) => {
    it.each(kinds)('is taken for a file that proves to be whole: %s', async (_what, path, before) => {
      const { service, repository, run, tree } = await mirrored(length, { [path]: before, 'b.xlsx': before });
      const after = anotherVersion(before);
      service.write(repository, 'main', path, after);
      expect(await run('sync')).toMatchObject({ exitCode: 0 });
      expect(service.takeDownloads()).toEqual([expect.stringContaining(`/contents/${path}`)]);
      expect((await readFile(join(tree('Accounting/main'), path))).equals(after)).toBe(true);
    });

    it.each(kinds.slice(0, 2))(
      'that stops early is not taken for a file: %s',
      async (_what, path, before) => {
        const { service, repository, run, tree } = await mirrored(length, {
          [path]: before,
          'b.xlsx': before,
        });
        for (const keep of [0, 600, 98_304, before.length - 512, before.length - 1]) {
          const after = anotherVersion(before);
          service.write(repository, 'main', path, after);
          service.failTimes(`/contents/${path}`, 1, { kind: 'truncate', keep });
          expect(await run('sync')).toMatchObject({ exitCode: 0 });
          expect((await readFile(join(tree('Accounting/main'), path))).equals(after)).toBe(true);
        }
      },
    );

    it.each(['/api/repos', '/v1/workbooks', '/contents?'])(
      'that stops early, to a request for %s, replaces nothing and ends with a failure',
      async (part) => {
        const { service, repository, run, tree } = await mirrored(length, { 'a.xlsx': NEW, 'b.xlsx': NEW });
        for (const path of ['a.xlsx', 'b.xlsx']) service.write(repository, 'main', path, anotherVersion(NEW));
        for (const keep of [0, 1, 50, 150]) {
          service.fault = (path) => (path.includes(part) ? { kind: 'truncate', keep } : null);
          expect((await run('sync')).exitCode).not.toBe(0);
          expect((await readdir(tree('Accounting/main'))).sort()).toEqual(['a.xlsx', 'b.xlsx']);
          expect((await readFile(join(tree('Accounting/main'), 'a.xlsx'))).equals(NEW)).toBe(true);
        }
      },
    );
  },
);
