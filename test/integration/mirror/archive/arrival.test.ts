import { randomBytes } from 'node:crypto';
import { access, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

import * as fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';

import {
  ArchiveDestination,
  type ArchiveSource,
} from '../../../../src/mirror/archive/archive-destination.ts';
import { ArchiveMemory } from '../../../../src/mirror/archive/archive-memory.ts';
import { openArchive } from '../../../../src/mirror/archive/archive.ts';
import type { EarlyPolicy } from '../../../../src/mirror/archive/early-unpacker.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { bytesOfEntries, inFile } from '../../../support/unpacked.ts';
import { buildZip, descriptor, type ZipEntry } from '../../../support/zip-builder.ts';

const MIB = 1024 * 1024;

let folder = '';

beforeEach(async () => {
  folder = await temporaryFolder();
});

/** An archive that goes to a file, as it is greater than what may stay in memory. */
function arriving(policy: Partial<EarlyPolicy> = {}, memoryBytes = 64 * MIB): ArchiveDestination {
  return new ArchiveDestination(join(folder, 'archive'), new ArchiveMemory(memoryBytes), {
    folder: join(folder, 'early'),
    isNew: () => true,
    maxUnpackedBytes: Number.MAX_SAFE_INTEGER,
    isPastCache: false,
    ...policy,
  });
}

async function send(
  destination: ArchiveDestination,
  zip: Buffer,
  pieceBytes = 40_000,
): Promise<ArchiveSource> {
  await destination.begin(Number.MAX_SAFE_INTEGER);
  for (let at = 0; at < zip.length; at += pieceBytes)
    await destination.write(zip.subarray(at, at + pieceBytes));
  expect(destination.sizeBytes).toBe(zip.length);
  await destination.close(true);
  return destination.source();
}

function earlyOf(source: ArchiveSource): number {
  return source.kind === 'file' ? source.early.size : 0;
}

/** What an archive comes to: its files, or the code and the words of its error. */
async function outcomeOf(source: ArchiveSource): Promise<unknown> {
  try {
    const archive = await openArchive(source, DEFAULT_LIMITS);
    try {
      const contents = await bytesOfEntries(archive);
      return archive.entries.map(({ path }, index) => [path, contents[index]?.toString('latin1')]);
    } finally {
      await archive.close();
    }
  } catch (error) {
    if (error instanceof MirrorError) return { code: error.code };
    throw error;
  }
}

async function isGone(path: string): Promise<boolean> {
  return access(path).then(
    () => false,
    () => true,
  );
}

const LARGE = randomBytes(100_000);
const DEFLATED = Buffer.from(randomBytes(90_000).toString('hex'));

const ENTRIES: readonly ZipEntry[] = [
  { name: 'top/stored.xlsx', data: LARGE },
  { name: 'top/small.txt', data: 'small' },
  { name: 'top/deflated.xlsx', data: DEFLATED, method: 8 },
  { name: 'top/empty', data: '' },
];

describe('an archive that is unpacked while it arrives', () => {
  it('gives the same files, and takes the large ones out of its file', async () => {
    const zip = buildZip(ENTRIES);
    for (const pieceBytes of [1000, 65_536, zip.length]) {
      const destination = arriving();
      const source = await send(destination, zip, pieceBytes);
      expect(earlyOf(source)).toBe(2);
      const path = join(folder, 'whole');
      await writeFile(path, zip);
      expect(await outcomeOf(source)).toStrictEqual(await outcomeOf(inFile(path)));
      await destination.discard();
      expect(await readdir(folder)).toEqual(['whole']);
    }
  });

  it.each([
    [
      'what is likely to be there already',
      { isNew: ({ sizeBytes }) => sizeBytes !== LARGE.length },
      64 * MIB,
      1,
    ],
    ['more than may be unpacked', { maxUnpackedBytes: 250_000 }, 64 * MIB, 1],
    ['anything without memory', {}, 0, 0],
  ] satisfies [string, Partial<EarlyPolicy>, number, number][])(
    'does not take out %s',
    async (_what, policy, memoryBytes, count) => {
      const destination = arriving(policy, memoryBytes);
      const source = await send(destination, buildZip(ENTRIES));
      expect(earlyOf(source)).toBe(count);
      expect(await outcomeOf(source)).toHaveLength(4);
      await destination.discard();
    },
  );

  it('keeps what follows an entry that does not say how long it is', async () => {
    const behind = descriptor(crc32(LARGE), LARGE.length, LARGE.length);
    const streamed: ZipEntry = { name: 'streamed', data: LARGE, flags: 8, behind };
    const source = await send(arriving(), buildZip([...ENTRIES, streamed, { name: 'last', data: LARGE }]));
    expect(earlyOf(source)).toBe(2);
    expect(await outcomeOf(source)).toHaveLength(6);
  });

  it('waits for threads where all memory for it is taken', async () => {
    const entries = Array.from({ length: 40 }, (_, index) => ({
      name: `${index}`,
      data: randomBytes(2 * MIB),
    }));
    const zip = buildZip(entries);
    const source = await send(arriving({}, 16 * MIB), zip, 128 * 1024);
    expect(earlyOf(source)).toBe(40);
    const expected = entries.map(({ name, data }) => [name, data.toString('latin1')]);
    expect(await outcomeOf(source)).toStrictEqual(expected);
  });

  it('that begins anew forgets what was unpacked of the one before', async () => {
    const destination = arriving();
    await destination.begin(Number.MAX_SAFE_INTEGER);
    await destination.write(buildZip([{ name: 'other', data: randomBytes(200_000) }]).subarray(0, 250_000));
    const source = await send(destination, buildZip(ENTRIES));
    expect(earlyOf(source)).toBe(2);
    expect(await outcomeOf(source)).toHaveLength(4);
    expect(await readdir(join(folder, 'early'))).toEqual([]);
  });

  it('that breaks off leaves nothing, wherever that is', async () => {
    const zip = buildZip(ENTRIES);
    for (let at = 0; at < zip.length; at += 9973) {
      const destination = arriving();
      await destination.begin(Number.MAX_SAFE_INTEGER);
      await destination.write(zip.subarray(0, at));
      await destination.close(false);
      expect(await readdir(folder)).toEqual([]);
    }
  });

  it('whose files cannot be made fails by the disk', async () => {
    await writeFile(join(folder, 'early'), 'in the way');
    const destination = arriving();
    await expect(send(destination, buildZip(ENTRIES))).rejects.toMatchObject({ code: 'disk.failed' });
    await destination.close(false);
    await destination.discard();
    expect(await isGone(join(folder, 'archive'))).toBe(true);
  });

  it('whose content is not what it says is damaged, and says which entry is', async () => {
    const zip = buildZip([...ENTRIES, { name: 'wrong', data: LARGE, crc: 1 }]);
    const source = await send(arriving(), zip);
    const archive = await openArchive(source, DEFAULT_LIMITS);
    const found: unknown = await bytesOfEntries(archive).catch((error: unknown) => error);
    expect(found).toMatchObject({ code: 'archive.damaged' });
    expect(String(found)).toContain('"wrong"');
    await archive.close();
  });
});

describe('an archive that is not whole, or contradicts itself', () => {
  /** Places of all that is no content. */
  function structureOf(zip: Buffer): number[] {
    const places: number[] = [];
    for (let at = 0; at < zip.length; at += 1) {
      const isHeader = [0, 100_045, 100_093].some((start) => at >= start && at < start + 60);
      if (isHeader || at > zip.length - 330) places.push(at);
    }
    return places;
  }

  async function bothOf(zip: Buffer): Promise<{ whole: unknown; early: unknown }> {
    const path = join(folder, 'whole');
    await writeFile(path, zip);
    const destination = arriving();
    const source = await send(destination, zip, zip.length);
    const both = { whole: await outcomeOf(inFile(path)), early: await outcomeOf(source) };
    await destination.discard();
    return both;
  }

  /** One that is damaged is judged again, with all of its bytes. */
  function expectAlike({ whole, early }: { whole: unknown; early: unknown }, what: string): void {
    if (JSON.stringify(early) !== '{"code":"archive.damaged"}') expect(early, what).toStrictEqual(whole);
  }

  it('is judged as one that was not, or damaged, whichever bit of its structure is changed', async () => {
    const zip = buildZip(ENTRIES);
    for (const place of structureOf(zip)) {
      const changed = Buffer.from(zip);
      changed[place] = (changed[place] ?? 0) ^ (1 << (place % 8));
      expectAlike(await bothOf(changed), `bit ${place % 8} of byte ${place}`);
    }
  });

  it('never gives other bytes than one that was not, however it is changed', async () => {
    const field = fc.constantFrom('method', 'flags', 'crc', 'compressedSize', 'size');
    const lie = fc.record({
      at: fc.nat(2),
      where: fc.constantFrom('local', 'central', 'both'),
      field,
      value: fc.oneof(fc.constantFrom(0, 1, 8, 100_000, 99_999, 65_536), fc.nat(200_000)),
    });
    const fieldsOf = (lies: readonly { field: string; value: number }[]): Record<string, number> =>
      Object.fromEntries(
        lies.map(({ field: name, value }) => [
          name,
          name === 'method' || name === 'flags' ? value % 65_536 : value,
        ]),
      );
    await fc.assert(
      fc.asyncProperty(fc.array(lie, { minLength: 1, maxLength: 3 }), async (lies) => {
        const entries = ENTRIES.map((entry, index): ZipEntry => {
          const ours = lies.filter(({ at }) => at === index);
          const local = fieldsOf(ours.filter(({ where }) => where !== 'central'));
          const central = fieldsOf(ours.filter(({ where }) => where !== 'local'));
          return Object.assign({}, entry, { local, central });
        });
        expectAlike(await bothOf(buildZip(entries)), JSON.stringify(lies));
      }),
      { numRuns: 300 },
    );
  });
});
