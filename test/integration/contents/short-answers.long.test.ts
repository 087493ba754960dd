import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { FakeKnobs } from '../../support/fake-service.ts';
import { startCommands } from '../../support/mirror-commands.ts';
import { partsWith, sheetOf, zipOf } from '../../support/workbooks.ts';

const NEW = zipOf(partsWith(sheetOf('<sheetData/>'), { 'xl/media/image1.png': randomBytes(200_000) }));
/** Only the middle of this format gives its length. */
const OLD = Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), randomBytes(200_000)]);

/** The same with other bytes in its middle, which no format looks at. */
function anotherVersion(bytes: Buffer): Buffer {
  const middle = Math.floor(bytes.length / 2);
  return Buffer.concat([bytes.subarray(0, middle), randomBytes(16), bytes.subarray(middle + 16)]);
}

/** A mirrored repository; further answers have no length. */
async function mirrored(length: FakeKnobs['length'], before: Readonly<Record<string, Buffer>>) {
  const synced = await startCommands();
  // An archive that makes old workbooks smaller costs less than one of them.
  synced.service.knobs.compression = 'stored';
  const repository = synced.service.addRepository('Accounting');
  for (const [path, bytes] of Object.entries(before)) synced.service.write(repository, 'main', path, bytes);
  expect(await synced.run('sync')).toMatchObject({ exitCode: 0 });
  synced.service.knobs.length = length;
  synced.service.takeRequests();
  return { ...synced, repository };
}

describe.each<FakeKnobs['length']>(['until-closed', 'chunked'])(
  'an answer without a length (%s)',
  (length) => {
    it.each([
      ['that proves to be whole is taken by its path', 'a.xlsx', NEW, false],
      ['of an old format is taken from the whole contents', 'a.xls', OLD, true],
    ])('is the file asked for: one %s', async (_what, path, before, isWhole) => {
      const { service, repository, run, tree } = await mirrored(length, { [path]: before, 'b.xlsx': before });
      const after = anotherVersion(before);
      service.write(repository, 'main', path, after);
      expect(await run('sync')).toMatchObject({ exitCode: 0 });
      expect(service.takeDownloads()).toHaveLength(isWhole ? 2 : 1);
      expect((await readFile(join(tree('Accounting/main'), path))).equals(after)).toBe(true);
    });

    it.each([
      ['a new workbook', 'a.xlsx', NEW],
      ['an old workbook', 'a.xls', OLD],
    ])('that stops early is not taken for a file: %s', async (_what, path, before) => {
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
    });
  },
);
