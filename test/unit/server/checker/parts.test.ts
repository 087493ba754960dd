import { randomBytes } from 'node:crypto';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { ZipEntry } from '../../../../src/lib/zip/directory.ts';
import { bytesInMemory } from '../../../../src/lib/zip/zip-bytes.ts';
import { listParts, unpackPart } from '../../../../src/server/checker/parts.ts';
import { zipOf } from '../../../support/workbooks.ts';

const { signal } = new AbortController();

function list(end: Buffer, sizeBytes = end.length): Promise<ZipEntry[] | null> {
  return listParts(bytesInMemory(end, sizeBytes), signal);
}

describe('the parts of a package', () => {
  it('are listed, and lead to their bytes', async () => {
    const zip = await zipOf({ 'a.xml': 'x'.repeat(1000), 'ä/b': randomBytes(100_000) });
    const entries = (await list(zip)) ?? [];
    expect(
      entries.map(({ name, sizeBytes, compressionMethod }) => [name, sizeBytes, compressionMethod]),
    ).toEqual([
      ['a.xml', 1000, 8],
      ['ä/b', 100_000, 8],
    ]);
    for (const found of entries) {
      expect((await unpackPart(bytesInMemory(zip), found, signal))?.content).toHaveLength(found.sizeBytes);
    }
    expect(await list(zip.subarray(1000), zip.length)).toEqual(entries);
    expect(await list(zip.subarray(-100), zip.length)).toBeNull();
  });

  it('are not listed of any file that is cut off, and are never read beyond its bytes', async () => {
    const zip = await zipOf({ 'a.xml': 'x'.repeat(100), b: 'y' });
    for (let length = 0; length < zip.length; length += 1) {
      expect(await list(zip.subarray(0, length))).toBeNull();
    }
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ at: fc.nat(zip.length - 1), value: fc.nat(255) }), {
          minLength: 1,
          maxLength: 8,
        }),
        async (changes) => {
          const changed = Buffer.from(zip);
          for (const { at, value } of changes) changed[at] = value;
          for (const found of (await list(changed)) ?? []) {
            const part = await unpackPart(bytesInMemory(changed), found, signal);
            expect(part === null || part.content.length === found.sizeBytes).toBe(true);
          }
        },
      ),
    );
  });

  it('are not listed where two share their bytes, or the file can be read in two ways', async () => {
    const zip = await zipOf({ a: 'x'.repeat(100), b: 'x'.repeat(100) });
    const second = zip.lastIndexOf('PK\u0001\u0002', undefined, 'latin1');
    const shared = Buffer.from(zip);
    shared.writeUInt32LE(0, second + 42);
    expect(await list(shared)).toBeNull();
    const end = zip.subarray(zip.lastIndexOf('PK\u0005\u0006', undefined, 'latin1'));
    expect(await list(Buffer.concat([zip, end]))).toBeNull();
    const oneOfSeveral = Buffer.from(zip);
    oneOfSeveral.writeUInt16LE(1, zip.length - end.length + 4);
    expect(await list(oneOfSeveral)).toBeNull();
  });
});
