import { randomBytes } from 'node:crypto';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromBufferPromise } from 'yauzl';

import { WHOLE_BYTES, zipOf, type ZipSource } from '../../../../src/server/replica/zip.ts';
import {
  dataDescriptor,
  DEFLATED,
  directoryRecord,
  endRecords,
  localHeader,
  needsZip64,
  type ZipEntryFacts,
} from '../../../../src/server/replica/zip-records.ts';
import { unpackZip } from '../../../support/unpacked.ts';

function source(name: string, content: Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  return {
    name,
    mode: 0o644,
    mtimeMs: 1_700_000_001_000,
    sizeBytes: content.length,
    isCompressed: false,
    readWhole: () => Promise.resolve(content),
    read: async function* read() {
      for (let at = 0; at < content.length; at += 100_000) yield content.subarray(at, at + 100_000);
    },
    ...more,
  };
}

async function bytesOf(sources: readonly ZipSource[]): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of zipOf(sources)) pieces.push(piece);
  return Buffer.concat(pieces);
}

interface Unpacked {
  readonly path: string;
  readonly modifiedAtMs: number;
  readonly bytes: Buffer;
}

/** Opens an archive as the mirror does, under its whole policy. */
async function unpack(archive: Buffer): Promise<Unpacked[]> {
  const { entries, files } = await unpackZip(archive);
  return entries.map(({ path, modifiedAtMs }) => {
    return { path, modifiedAtMs, bytes: files[path] ?? Buffer.alloc(0) };
  });
}

const names = fc
  .array(
    fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
      .filter(
        (text) =>
          !/[/\\\p{Cc}\p{Surrogate}]/u.test(text) &&
          text !== '.' &&
          text !== '..' &&
          !/^[A-Za-z]:/.test(text),
      ),
    { minLength: 1, maxLength: 3 },
  )
  .map((segments) => segments.join('/'));
const files = fc.uniqueArray(
  fc.record({
    name: names,
    content: fc.uint8Array({ maxLength: 2000 }),
    mtimeMs: fc.oneof(
      fc.integer({ min: 0, max: 2 ** 31 - 1 }).map((second) => second * 1000),
      fc.integer({ min: 0, max: (2 ** 31 - 1) * 1000 }),
    ),
    mode: fc.constantFrom(0o644, 0o755, 0o600),
    isCompressed: fc.boolean(),
  }),
  // Names that meet without case, or a file that is a folder, no mirror has.
  { selector: ({ name }) => name.normalize('NFKC').toLowerCase().split('/')[0], maxLength: 6 },
);

describe('an archive', () => {
  it('gives the names, times and bytes that went in, whatever they are', async () => {
    await fc.assert(
      fc.asyncProperty(files, async (given) => {
        const archive = await bytesOf(given.map(({ name, content, ...more }) => source(name, content, more)));
        expect(await unpack(archive)).toEqual(
          given.map(({ name, content, mtimeMs }) => ({
            path: name,
            modifiedAtMs: mtimeMs,
            bytes: Buffer.from(content),
          })),
        );
      }),
      { numRuns: 60 },
    );
  });

  it('has the modes of the files, names marked as UTF-8, and workbooks as they are', async () => {
    const text = Buffer.alloc(5000, 'a');
    const archive = await fromBufferPromise(
      await bytesOf([
        source('Änderung.csv', text, { mode: 0o755 }),
        source('b.xlsx', text, { isCompressed: true }),
      ]),
    );
    const facts: unknown[] = [];
    for await (const entry of archive.eachEntry()) {
      facts.push([
        entry.fileName,
        (entry.externalFileAttributes >>> 16).toString(8),
        (entry.generalPurposeBitFlag & 0x800) !== 0,
        entry.compressedSize < entry.uncompressedSize,
      ]);
    }
    expect(facts).toEqual([
      ['Änderung.csv', '100755', true, true],
      ['b.xlsx', '100644', true, false],
    ]);
  });

  it('streams what is too great for memory, packed or not', async () => {
    const content = Buffer.concat([randomBytes(WHOLE_BYTES), Buffer.alloc(300_000, 'x')]);
    const never = { readWhole: () => Promise.reject(new Error('it was read whole')) };
    const unpacked = await unpack(
      await bytesOf([
        source('a.csv', content, never),
        source('b.xlsx', content, { ...never, isCompressed: true }),
        source('c.txt', Buffer.from('small')),
      ]),
    );
    expect(unpacked.map(({ path, bytes }) => [path, bytes.length])).toEqual([
      ['a.csv', content.length],
      ['b.xlsx', content.length],
      ['c.txt', 5],
    ]);
    expect(unpacked[0]?.bytes.equals(content) && unpacked[1]?.bytes.equals(content)).toBe(true);
  });

  it('is the same every time', async () => {
    const content = randomBytes(WHOLE_BYTES + 70_000);
    const given = [source('a.csv', content), source('b.xlsx', content, { isCompressed: true })];
    expect((await bytesOf(given)).equals(await bytesOf(given))).toBe(true);
  });

  it('is an end alone when it holds nothing', async () => {
    expect((await bytesOf([])).toString('latin1')).toBe(`PK\u0005\u0006${'\0'.repeat(18)}`);
  });

  it.each([
    ['small', {}],
    ['great', { sizeBytes: WHOLE_BYTES + 1 }],
  ])('breaks off at a %s file that fails, before its end', async (_size, more) => {
    const failing = source('b', Buffer.from('b'), {
      ...more,
      readWhole: () => Promise.reject(new Error('no such file')),
      read: async function* read() {
        yield Buffer.from('b');
        throw new Error('no such file');
      },
    });
    const pieces: Uint8Array[] = [];
    const reading = (async () => {
      for await (const piece of zipOf([source('a', Buffer.from('a')), failing])) pieces.push(piece);
    })();
    await expect(reading).rejects.toThrow('no such file');
    expect(Buffer.concat(pieces).includes('PK\u0005\u0006')).toBe(false);
  });

  it('stops reading when nobody wants more', async () => {
    const state = { isClosed: false };
    const endless = source('a.csv', Buffer.alloc(0), {
      sizeBytes: 2 ** 40,
      read: async function* read() {
        try {
          for (;;) yield randomBytes(100_000);
        } finally {
          state.isClosed = true;
        }
      },
    });
    for await (const piece of zipOf([endless])) if (piece.length > 0) break;
    await expect.poll(() => state.isClosed).toBe(true);
  });
});

describe('the records of great archives', () => {
  const GIB = 2 ** 30;
  const entry: ZipEntryFacts = {
    name: 'a',
    mode: 0o644,
    mtimeMs: 0,
    method: DEFLATED,
    hasDescriptor: true,
    crc32: 7,
    compressedBytes: 5 * GIB,
    sizeBytes: 6 * GIB,
    offset: 7 * GIB,
    isZip64: true,
  };

  it.each([
    [0, false],
    [4 * GIB - 2 ** 26, false],
    [4 * GIB - 2 ** 20, true],
    [4 * GIB, true],
  ])('have 64 bits for %d bytes: %j', (sizeBytes, isZip64) => {
    expect(needsZip64(sizeBytes)).toBe(isZip64);
  });

  it('have sizes and offsets beyond 4 GiB', async () => {
    const directory = directoryRecord(entry);
    const end = endRecords({ entries: 1, sizeBytes: directory.length, offset: 8 * GIB });
    expect(end.readUInt32LE(0)).toBe(0x06064b50);
    expect(end.readBigUInt64LE(48)).toBe(BigInt(8 * GIB));
    expect(localHeader(entry).readUInt16LE(4)).toBe(45);
    expect(dataDescriptor(entry).readBigUInt64LE(16)).toBe(BigInt(6 * GIB));
    const extra = directory.subarray(46 + 1);
    const at = extra.indexOf(Buffer.from([1, 0, 24, 0]));
    expect([4, 12, 20].map((offset) => Number(extra.readBigUInt64LE(at + offset)) / GIB)).toEqual([6, 5, 7]);
  });

  it('have more entries than 16 bits count', async () => {
    const given = Array.from({ length: 66_000 }, (_, index) =>
      source(`${index}`, Buffer.from('x'), { isCompressed: true }),
    );
    const archive = await fromBufferPromise(await bytesOf(given));
    expect(archive.entryCount).toBe(66_000);
  });
});
