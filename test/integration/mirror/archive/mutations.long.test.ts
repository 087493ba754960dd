import { join } from 'node:path';
import { crc32 } from 'node:zlib';

import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { buildZip, descriptor, type ZipEntry } from '../../../support/zip-builder.ts';
import { readZip } from '../../../support/unpacked.ts';

/** More than an entry of a small archive can need. */
const MEMORY_BYTES = 300e6;

const noise = Buffer.from(
  Array.from({ length: 4000 }, (_, index) => (index * index * 31) >>> 3 && (index * 7919) % 251),
);
const FILES: Readonly<Record<string, Buffer>> = {
  'a.xlsx': Buffer.from('stored'),
  'deep/b.xlsx': Buffer.from('deflated '.repeat(300)),
  'deep/er/c.txt': noise,
  empty: Buffer.alloc(0),
};

function entryOf(name: string, data: Buffer, method: number, isStreamed: boolean): ZipEntry {
  const entry = { name, data, method, mode: 0o100644 };
  if (!isStreamed || method !== 0) return entry;
  return { ...entry, flags: 8, behind: descriptor(crc32(data), data.length, data.length) };
}

function archiveOf(isStreamed: boolean, zip64: boolean): Buffer {
  const entries = Object.entries(FILES).map(([name, data], index) =>
    entryOf(name, data, index % 2 === 1 ? 8 : 0, isStreamed),
  );
  return buildZip(entries, zip64 ? { zip64: {} } : { comment: Buffer.from('0123abc') });
}

const ARCHIVES = [
  archiveOf(false, false),
  archiveOf(true, false),
  archiveOf(false, true),
  archiveOf(true, true),
];
const originals = new Set(Object.values(FILES).map((bytes) => bytes.toString('latin1')));

type Mutation = (zip: Buffer) => Buffer;

/** A position in an archive, as a fraction; half of them are at its end, in the directory. */
const place = fc.oneof(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: 0.85, max: 1, noNaN: true }),
);

function at(zip: Buffer, share: number): number {
  return Math.min(zip.length - 1, Math.floor(share * zip.length));
}

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.tuple(place, fc.nat(7)).map(([share, bit]): Mutation => (zip) => {
    const changed = Buffer.from(zip);
    const where = at(zip, share);
    changed.writeUInt8(changed.readUInt8(where) ^ (1 << bit), where);
    return changed;
  }),
  fc
    .tuple(place, fc.constantFrom(0, 1, 0x7f, 0xff), fc.integer({ min: 1, max: 8 }))
    .map(([share, value, length]): Mutation => (zip) => {
      const changed = Buffer.from(zip);
      changed.fill(value, at(zip, share), Math.min(zip.length, at(zip, share) + length));
      return changed;
    }),
  fc.tuple(place, fc.integer({ min: 1, max: 200 })).map(
    ([share, length]): Mutation =>
      (zip) =>
        Buffer.concat([zip.subarray(0, at(zip, share)), zip.subarray(at(zip, share) + length)]),
  ),
  fc.tuple(place, fc.uint8Array({ minLength: 1, maxLength: 60 })).map(
    ([share, bytes]): Mutation =>
      (zip) =>
        Buffer.concat([zip.subarray(0, at(zip, share)), bytes, zip.subarray(at(zip, share))]),
  ),
  fc.tuple(place, place, fc.integer({ min: 1, max: 100 })).map(([from, to, length]): Mutation => (zip) => {
    const changed = Buffer.from(zip);
    zip.copy(changed, at(zip, to), at(zip, from), Math.min(zip.length, at(zip, from) + length));
    return changed;
  }),
);

/** The bytes, or the error. */
async function outcomeOf(zip: Uint8Array): Promise<readonly string[] | MirrorError> {
  try {
    const { entries, files } = await readZip(zip, {}, [[zip.length], [509]]);
    for (const { path, modifiedAtMs } of entries) {
      expect(Number.isInteger(modifiedAtMs) && modifiedAtMs >= 0).toBe(true);
      expect(join('/root/tree', path)).toBe(`/root/tree/${path}`);
    }
    return Object.values(files).map((bytes) => bytes.toString('latin1'));
  } catch (error) {
    if (error instanceof MirrorError) return error;
    throw error;
  }
}

it('a changed archive fails or gives the right bytes, without much time or memory', async () => {
  for (const zip of ARCHIVES) expect(await outcomeOf(zip)).toHaveLength(Object.keys(FILES).length);
  const before = process.memoryUsage().rss;
  const counts = { tried: 0, taken: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...ARCHIVES),
      fc.array(mutation, { minLength: 1, maxLength: 3 }),
      async (zip, mutations) => {
        const outcome = await outcomeOf(mutations.reduce((bytes, mutate) => mutate(bytes), zip));
        counts.tried += 1;
        if (outcome instanceof MirrorError) {
          expect(outcome.code).toMatch(/^archive\.(damaged|refused)$/);
          return;
        }
        counts.taken += 1;
        for (const text of outcome) expect(originals).toContain(text);
      },
    ),
    { numRuns: 1000, interruptAfterTimeLimit: 45_000 },
  );
  expect(process.memoryUsage().rss - before).toBeLessThan(MEMORY_BYTES);
  process.stdout.write(
    `changed archives: ${counts.tried} tried, ${counts.taken} taken with the right bytes, 0 violations\n`,
  );
}, 90_000);
