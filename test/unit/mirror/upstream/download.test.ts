import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

import * as fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';

import {
  FileDestination,
  type Part,
  readStep,
  restHeaders,
  resumesAtBytes,
} from '../../../../src/mirror/upstream/download.ts';
import { strongTag } from '../../../../src/mirror/upstream/answers.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PART: Part = { tag: '"a"', totalBytes: 1000, sizeBytes: 400 };
const REST = { etag: '"a"', 'content-range': 'bytes 400-999/1000', 'content-length': '600' };

describe('what is asked for after a break', () => {
  it.each<[string, Part | null, number]>([
    ['nothing came', null, 0],
    ['nothing came but headers', { ...PART, sizeBytes: 0 }, 0],
    ['the bytes have no tag', { ...PART, tag: null }, 0],
    ['the bytes have a tag', PART, 400],
    ['nobody said how many there are', { ...PART, totalBytes: null }, 400],
  ])('when %s', (_when, part, atBytes) => {
    expect(resumesAtBytes(part)).toBe(atBytes);
    expect(restHeaders(part)).toStrictEqual(atBytes === 0 ? {} : { range: 'bytes=400-', 'if-range': '"a"' });
  });

  it.each([
    ['"a"', '"a"'],
    ['""', '""'],
    ['W/"a"', null],
    ['a', null],
    ['"a" ', null],
    ['"a", "b"', null],
    [undefined, null],
  ])('by the tag %j', (etag, tag) => {
    expect(strongTag(etag)).toBe(tag);
  });
});

describe('an answer to a question for everything', () => {
  it.each([
    ['with a tag and a length', { etag: '"a"', 'content-length': '5' }, { tag: '"a"', totalBytes: 5 }],
    ['in chunks', { etag: '"a"' }, { tag: '"a"', totalBytes: null }],
    ['with a weak tag', { etag: 'W/"a"', 'content-length': '5' }, { tag: null, totalBytes: 5 }],
    ['without ranges', { etag: '"a"', 'accept-ranges': 'none' }, { tag: null, totalBytes: null }],
    ['with ranges', { etag: '"a"', 'accept-ranges': 'bytes' }, { tag: '"a"', totalBytes: null }],
    [
      'in a coding',
      { etag: '"a"', 'content-length': '5', 'content-encoding': 'gzip' },
      { tag: null, totalBytes: null },
    ],
    [
      'in no coding, and it says so',
      { etag: '"a"', 'content-length': '5', 'content-encoding': 'identity' },
      { tag: '"a"', totalBytes: 5 },
    ],
  ])('begins the bytes: %s', (_what, headers, origin) => {
    expect(readStep(200, headers, null)).toMatchObject({ kind: 'begins', ...origin });
  });

  it.each([206, 416])('does not fit with status %i', (status) => {
    expect(readStep(status, REST, null)).toMatchObject({ kind: 'unfit' });
    expect(readStep(status, REST, { ...PART, sizeBytes: 0 })).toMatchObject({ kind: 'unfit' });
  });
});

describe('an answer to a question for the rest', () => {
  it('continues, and says how many bytes there are where nobody knew', () => {
    const step = { kind: 'continues', tag: '"a"', totalBytes: 1000, endBytes: 1000 };
    expect(readStep(206, REST, PART)).toStrictEqual(step);
    expect(readStep(206, REST, { ...PART, totalBytes: null })).toStrictEqual(step);
    const { 'content-length': _length, ...chunked } = REST;
    expect(readStep(206, chunked, PART)).toStrictEqual(step);
  });

  it('may be a piece of the rest', () => {
    const headers = { ...REST, 'content-range': 'bytes 400-499/1000', 'content-length': '100' };
    expect(readStep(206, headers, PART)).toMatchObject({ kind: 'continues', endBytes: 500 });
  });

  it.each<[string, Record<string, string>]>([
    ['from another byte on', { 'content-range': 'bytes 399-999/1000', 'content-length': '601' }],
    ['from the first byte on', { 'content-range': 'bytes 0-999/1000', 'content-length': '1000' }],
    ['of another total', { 'content-range': 'bytes 400-999/1001' }],
    ['of an unknown total', { 'content-range': 'bytes 400-999/*' }],
    ['beyond the total', { 'content-range': 'bytes 400-1000/1000', 'content-length': '601' }],
    ['backwards', { 'content-range': 'bytes 400-399/1000', 'content-length': '0' }],
    ['of another length', { 'content-length': '599' }],
    ['in other units', { 'content-range': 'lines 400-999/1000' }],
    ['that does not say which', { 'content-range': '' }],
    ['of several parts', { 'content-type': 'multipart/byteranges; boundary=x' }],
    ['of other bytes', { etag: '"b"' }],
    ['of bytes with a weak tag', { etag: 'W/"a"' }],
    ['without a tag', { etag: '' }],
    ['in a coding', { 'content-encoding': 'gzip' }],
  ])('does not fit: a part %s', (_what, headers) => {
    expect(readStep(206, { ...REST, ...headers }, PART)).toMatchObject({ kind: 'unfit' });
  });

  it('that there is no rest does not fit', () => {
    expect(readStep(416, { 'content-range': 'bytes */400' }, PART)).toMatchObject({ kind: 'unfit' });
  });

  it('with everything begins anew; where it is the same, the rest is not asked for again', () => {
    const step = readStep(200, { etag: '"b"', 'content-length': '7' }, PART);
    expect(step).toStrictEqual({ kind: 'begins', tag: '"b"', totalBytes: 7, endBytes: 7 });
    expect(readStep(200, { etag: '"a"' }, PART)).toMatchObject({ tag: null });
    expect(readStep(200, { etag: '"a"' }, { ...PART, sizeBytes: 0 })).toMatchObject({ tag: '"a"' });
  });

  it('never continues with anything but the bytes that follow, whatever it says', () => {
    const number = fc.integer({ min: 0, max: 20 });
    fc.assert(
      fc.property(
        number,
        number,
        number,
        number,
        fc.constantFrom('"a"', '"b"'),
        (at, first, last, total, etag) => {
          const part = { tag: '"a"', totalBytes: null, sizeBytes: at };
          const headers = { etag, 'content-range': `bytes ${first}-${last}/${total}` };
          const step = readStep(206, headers, part);
          const fits = at > 0 && first === at && last >= first && last < total && etag === '"a"';
          expect(step.kind).toBe(fits ? 'continues' : 'unfit');
          if (step.kind === 'continues') expect([step.endBytes, step.totalBytes]).toEqual([last + 1, total]);
        },
      ),
    );
  });
});

describe('a file that a download goes to', () => {
  let path = '';

  beforeEach(async () => {
    path = join(await temporaryFolder(), 'file');
  });

  it('takes the place of one that is there, piece by piece', async () => {
    await writeFile(path, 'of an attempt before');
    const file = new FileDestination(path);
    await file.begin();
    for (const piece of ['D', 'EFG', '']) await file.write(Buffer.from(piece));
    expect(file.sizeBytes).toBe(4);
    expect(file.sha256).toBe(createHash('sha256').update('DEFG').digest('hex'));
    expect(file.crc32).toBe(crc32('DEFG'));
    await file.close(true);
    expect(await readFile(path, 'utf8')).toBe('DEFG');
  });

  it('is empty when it begins anew, and gone when it is not kept', async () => {
    const file = new FileDestination(path);
    await file.begin();
    await file.write(Buffer.from('abc'));
    await file.begin();
    await file.write(Buffer.from('d'));
    expect(await readFile(path, 'utf8')).toBe('d');
    await file.close(false);
    await expect(readFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('says that the disk failed when it cannot be removed', async () => {
    const file = new FileDestination(path);
    await file.begin();
    await rm(path);
    await mkdir(path);
    await expect(file.close(false)).rejects.toMatchObject({ code: 'disk.failed' });
  });
});
