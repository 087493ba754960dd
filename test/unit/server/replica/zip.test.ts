import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromBufferPromise } from 'yauzl';

import { nameFault } from '../../../../src/lib/paths/file-name.ts';
import type { ByteRange } from '../../../../src/server/http/library.ts';
import { zipBytes, zipOf, type ZipSource } from '../../../../src/server/replica/zip.ts';
import { unpackZip } from '../../../support/unpacked.ts';

const SIGNAL = new AbortController().signal;

function source(name: string, content: Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  return {
    name,
    mode: 0o644,
    mtimeMs: 1_700_000_001_000,
    sizeBytes: content.length,
    crc32: crc32(content),
    read: async function* read(_signal, { first, last }) {
      for (let at = first; at <= last; at += 100_000)
        yield content.subarray(at, Math.min(last + 1, at + 100_000));
    },
    ...more,
  };
}

async function bytesOf(sources: readonly ZipSource[], range?: ByteRange): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of zipOf(sources, SIGNAL, range)) pieces.push(piece);
  return Buffer.concat(pieces);
}

const names = fc
  .array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 3 })
  .map((segments) => segments.join('/'))
  .filter((path) => nameFault(path) === null);
const files = fc.uniqueArray(
  fc.record({
    name: names,
    content: fc.uint8Array({ maxLength: 2000 }),
    mtimeMs: fc.oneof(
      fc.integer({ min: 0, max: 2 ** 31 - 1 }).map((second) => second * 1000),
      fc.integer({ min: 0, max: (2 ** 31 - 1) * 1000 }),
    ),
    mode: fc.constantFrom(0o644, 0o755, 0o600),
  }),
  // A mirror has no names that differ only in case, and no path that is both file and folder.
  { selector: ({ name }) => name.normalize('NFKC').toLowerCase().split('/')[0], maxLength: 6 },
);

describe('an archive', () => {
  it('has the given names, times and bytes, and the announced length', async () => {
    await fc.assert(
      fc.asyncProperty(files, async (given) => {
        const sources = given.map(({ name, content, ...more }) => source(name, content, more));
        const archive = await bytesOf(sources);
        expect(archive.length).toBe(await zipBytes(sources));
        // Unpacked as in the mirror, under its whole policy.
        const { entries, files: unpacked } = await unpackZip(archive);
        const found = entries.map(({ path, modifiedAtMs }) => [path, modifiedAtMs, unpacked[path]]);
        expect(found).toEqual(
          given.map(({ name, mtimeMs, content }) => [name, mtimeMs, Buffer.from(content)]),
        );
      }),
      { numRuns: 60 },
    );
  });

  it('has the same bytes in each range, and reads only the files of the range', async () => {
    const given = ['a', 'b', 'c'].map((name) => source(name, randomBytes(1000)));
    const whole = await bytesOf(given);
    for (let first = 0; first < whole.length; first += 97) {
      const range = { first, last: Math.min(whole.length - 1, first + 250) };
      expect((await bytesOf(given, range)).equals(whole.subarray(first, range.last + 1))).toBe(true);
    }
    const end = { first: whole.length - 1100, last: whole.length - 1 };
    const sources = given.map((each, index) =>
      index === 2 ? each : Object.assign(each, { read: () => expect.fail('it was read') }),
    );
    expect((await bytesOf(sources, end)).equals(whole.subarray(end.first))).toBe(true);
  });

  it('is the same whether the checksums are known or computed', async () => {
    const content = randomBytes(300_000);
    const { crc32: _crc32, ...unknown } = source('a', content);
    expect((await bytesOf([unknown])).equals(await bytesOf([source('a', content)]))).toBe(true);
  });

  it('has the modes of the files, and names marked as UTF-8', async () => {
    const sources = [source('Änderung.csv', Buffer.from('a'), { mode: 0o755 })];
    const archive = await fromBufferPromise(await bytesOf(sources));
    for await (const entry of archive.eachEntry()) {
      expect(entry.fileName).toBe('Änderung.csv');
      expect((entry.externalFileAttributes >>> 16).toString(8)).toBe('100755');
      expect(entry.generalPurposeBitFlag & 0x800).not.toBe(0);
    }
  });

  // Old programs refuse entries that need a later version of zip (APPNOTE 4.4.3).
  it('needs version 2.0 to extract small files', async () => {
    expect((await bytesOf([source('a', Buffer.from('a'))])).readUInt16LE(4)).toBe(20);
  });

  it('is only an end record when it is empty', async () => {
    expect((await bytesOf([])).toString('latin1')).toBe(`PK\u0005\u0006${'\0'.repeat(18)}`);
  });

  it('stops at a file that fails, before its end', async () => {
    const failing = source('b', Buffer.from('b'), {
      // eslint-disable-next-line require-yield
      read: async function* read() {
        throw new Error('no such file');
      },
    });
    const pieces: Uint8Array[] = [];
    const reading = (async () => {
      for await (const piece of zipOf([source('a', randomBytes(100_000)), failing], SIGNAL))
        pieces.push(piece);
    })();
    await expect(reading).rejects.toThrow('no such file');
    expect(pieces.length).toBeGreaterThan(0);
    expect(Buffer.concat(pieces).includes('PK\u0005\u0006')).toBe(false);
  });

  it('holds files and offsets beyond 4 GiB', async () => {
    const sizeBytes = 5 * 2 ** 30;
    const unread = { sizeBytes, crc32: 7, read: () => expect.fail('it was read') };
    const sources = [source('a', Buffer.alloc(0), unread), source('b', Buffer.from('bytes'))];
    const length = await zipBytes(sources);
    expect(length).toBeGreaterThan(sizeBytes);
    const tail = await bytesOf(sources, { first: sizeBytes + 100, last: length - 1 });
    const end = tail.subarray(tail.indexOf('PK\u0006\u0006'));
    expect(Number(end.readBigUInt64LE(48))).toBe(length - end.length - Number(end.readBigUInt64LE(40)));
    const extra = tail.subarray(tail.indexOf('PK\u0001\u0002') + 46 + 1);
    const at = extra.indexOf(Buffer.from([1, 0, 16, 0]));
    for (const offset of [4, 12]) expect(Number(extra.readBigUInt64LE(at + offset))).toBe(sizeBytes);
    const second = tail.subarray(tail.lastIndexOf('PK\u0001\u0002') + 46 + 1);
    const far = second.indexOf(Buffer.from([1, 0, 8, 0]));
    expect(Number(second.readBigUInt64LE(far + 4))).toBeGreaterThan(sizeBytes);
  });

  it('holds more entries than 16 bits count', async () => {
    const given = Array.from({ length: 66_000 }, (_, index) => source(`${index}`, Buffer.from('x')));
    // The last of 7 MB: to make all of it takes seconds.
    const tail = await bytesOf(given, { first: 6_000_000, last: Infinity });
    const end = tail.subarray(tail.lastIndexOf('PK\u0006\u0006'));
    expect([24, 32].map((at) => Number(end.readBigUInt64LE(at)))).toEqual([66_000, 66_000]);
  });
});
