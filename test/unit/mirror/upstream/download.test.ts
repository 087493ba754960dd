import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  Bandwidth,
  isRest,
  type Part,
  wholeBytes,
  withinLimitAtMs,
} from '../../../../src/mirror/upstream/download.ts';
import { strongTag } from '../../../../src/mirror/upstream/answers.ts';

const PART: Part = { tag: '"a"', totalBytes: 1000, sizeBytes: 400 };
const REST = { etag: '"a"', 'content-range': 'bytes 400-999/1000', 'content-length': '600' };

describe('bytes', () => {
  it.each([
    ['"a"', '"a"'],
    ['""', '""'],
    ['W/"a"', null],
    ['a', null],
    ['"a" ', null],
    ['"a", "b"', null],
    [undefined, null],
  ])('are recognised by the tag %j', (etag, tag) => {
    expect(strongTag(etag)).toBe(tag);
  });

  it.each([
    [{ 'content-length': '5' }, 5],
    [{}, null],
    [{ 'content-length': '5', 'content-encoding': 'gzip' }, null],
    [{ 'content-length': '5', 'content-encoding': 'identity' }, 5],
  ])('are as many as the response announces: %j', (headers, sizeBytes) => {
    expect(wholeBytes(headers)).toBe(sizeBytes);
  });
});

describe('a response to a request for the rest', () => {
  it('is the rest, with a length or in chunks, even if the total was unknown, unless it claims none', () => {
    expect(isRest(416, { ...REST, 'content-range': 'bytes */400' }, PART)).toBe(false);
    const { 'content-length': _length, ...chunked } = REST;
    expect(isRest(206, REST, PART)).toBe(true);
    expect(isRest(206, chunked, PART)).toBe(true);
    expect(isRest(206, REST, { ...PART, totalBytes: null })).toBe(true);
  });

  it.each<[string, Record<string, string>]>([
    ['of another total', { 'content-range': 'bytes 400-1000/1001', 'content-length': '601' }],
    ['of an unknown total', { 'content-range': 'bytes 400-999/*' }],
    ['of another length', { 'content-length': '599' }],
    ['in other units', { 'content-range': 'lines 400-999/1000' }],
    ['that does not say which', { 'content-range': '' }],
    ['of several parts', { 'content-type': 'multipart/byteranges; boundary=x' }],
    ['of bytes with a weak tag', { etag: 'W/"a"' }],
    ['without a tag', { etag: '' }],
    ['in a coding', { 'content-encoding': 'gzip' }],
  ])('does not fit: a part %s', (_what, headers) => {
    expect(isRest(206, { ...REST, ...headers }, PART)).toBe(false);
  });

  it('continues only with the bytes that follow, whatever its headers claim', () => {
    const near = fc.integer({ min: -1, max: 1 });
    const restBytes = fc.nat(3);
    const tag = fc.constantFrom('"a"', '"b"');
    fc.assert(
      fc.property(near, restBytes, near, tag, (shift, rest, gap, etag) => {
        const part = { tag: '"a"', totalBytes: null, sizeBytes: 9 };
        const [first, end] = [9 + shift, 9 + shift + rest];
        const headers = { etag, 'content-range': `bytes ${first}-${end - 1}/${end + gap}` };
        const fits = shift === 0 && rest > 0 && gap === 0 && etag === '"a"';
        expect(isRest(206, headers, part)).toBe(fits);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a limit of the bandwidth', () => {
  it('is kept, except for a saved allowance', () => {
    let [freeAtMs, nowMs, takenBytes] = [0, 1_000_000, 0];
    for (const pieceBytes of [65_536, 8192, 20_000, 1]) {
      const endMs = nowMs + 10_000;
      for (const startBytes = takenBytes; ; takenBytes += pieceBytes) {
        freeAtMs = withinLimitAtMs(freeAtMs, 1_000_000, pieceBytes, nowMs);
        nowMs = Math.max(nowMs, freeAtMs);
        if (nowMs < endMs) continue;
        expect(takenBytes - startBytes).toBeLessThanOrEqual(10_250_000);
        expect(takenBytes - startBytes).toBeGreaterThan(9_900_000);
        break;
      }
      nowMs += 60_000;
    }
  });

  it('drops requests that ended', async () => {
    const gone = new AbortController();
    const bandwidth = new Bandwidth(1);
    const left = bandwidth.take(1e6, gone.signal);
    gone.abort(new Error('the pass is over'));
    await expect(left).rejects.toMatchObject({ code: 'pass.abandoned' });
    await expect(bandwidth.take(1, gone.signal)).rejects.toMatchObject({ code: 'pass.abandoned' });
  });
});
