import { describe, expect, it } from 'vitest';

import { defaultKnobs, zipOf } from '../../../support/fake-service.ts';
import { type ZipEntry, buildZip } from '../../../support/zip-builder.ts';
import { readZip } from '../../../support/unpacked.ts';

async function readAll(zip: Uint8Array): Promise<Readonly<Record<string, Buffer>>> {
  return (await readZip(zip)).files;
}

/** Bytes that deflate only a little, the same every time. */
function noise(length: number): Buffer {
  let state = 0x2545f491;
  return Buffer.from(
    Array.from({ length }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state >>> 24;
    }),
  );
}

const LONG = noise(3 * 1024 * 1024);

describe('a sound archive is read', () => {
  it.each([
    ['stored', { compression: 'stored' }],
    ['deflated', { compression: 'deflated' }],
    ['zip64', { zip64: true }],
    ['with data descriptors', { dataDescriptors: true }],
    ['zip64 with data descriptors', { zip64: true, dataDescriptors: true }],
    ['with folder entries', { folderEntries: true }],
  ] as const)('%s, with small and great entries', async (_name, knobs) => {
    const files = { 'a.txt': Buffer.from('a'), empty: Buffer.alloc(0), 'deep/long.bin': LONG };
    const zip = await zipOf(new Map(Object.entries(files)), { ...defaultKnobs(), ...knobs });
    const found = await readAll(zip);
    expect(Object.keys(found).sort()).toStrictEqual(Object.keys(files).sort());
    for (const [path, bytes] of Object.entries(files)) expect(found[path]?.equals(bytes)).toBe(true);
  });

  it('with nothing in it', async () => {
    expect(await readAll(buildZip([]))).toStrictEqual({});
  });

  it('with more entries than are listed together, in the order of the file', async () => {
    const names = Array.from({ length: 2500 }, (_, index) => `folder ${index % 7}/${index}`);
    const archive = await readZip(buildZip(names.map((name) => ({ name, data: name }))));
    expect(archive.entries.map(({ path }) => path)).toStrictEqual(names);
  });

  it('with a comment', async () => {
    const zip = buildZip([{ name: 'a', data: 'a' }], { comment: Buffer.from('made by a service') });
    expect(await readAll(zip)).toStrictEqual({ a: Buffer.from('a') });
  });
});

describe('an archive is found damaged', () => {
  const small = 'some text '.repeat(50);
  const lies: readonly [string, ZipEntry][] = [
    ['by a CRC of a stored entry', { name: 'a', data: small, crc: 1 }],
    ['by a CRC of a deflated entry', { name: 'a', data: small, method: 8, crc: 1 }],
    ['by a CRC of a great stored entry', { name: 'a', data: LONG, crc: 1 }],
    ['by a CRC of a great deflated entry', { name: 'a', data: LONG, method: 8, crc: 1 }],
    ['by a size that is too small', { name: 'a', data: small, method: 8, size: 10 }],
    ['by a size of zero', { name: 'a', data: small, method: 8, size: 0 }],
    ['by a size that is too great', { name: 'a', data: small, method: 8, size: 5000 }],
    ['by a size that is far too great', { name: 'a', data: small, method: 8, size: 200_000_000 }],
    ['by a size that is too small for what is inside', { name: 'a', data: LONG, method: 8, size: 2_900_000 }],
    ['by a stored size that differs', { name: 'a', data: small, size: 20 }],
    [
      'by a stored size that goes beyond the end',
      { name: 'a', data: small, compressedSize: 90_000, size: 90_000 },
    ],
    ['by a compressed size that is too small', { name: 'a', data: small, method: 8, compressedSize: 5 }],
    [
      'by a compressed size that is far too great',
      { name: 'a', data: small, method: 8, compressedSize: 0x7fffffff },
    ],
    ['by an offset beyond the end', { name: 'a', data: small, offset: 1_000_000 }],
    ['by an offset without an entry', { name: 'a', data: small, offset: 7 }],
  ];
  it.each(lies)('%s', async (_name, entry) => {
    const zip = buildZip([{ name: 'good', data: 'good' }, entry]);
    await expect(readAll(zip)).rejects.toMatchObject({ code: 'archive.damaged', action: 'retry' });
  });

  it.each([0, 1, 999, 1000, 1001, 1999, 2000, 2001, 2499])(
    'by its entry %i that cannot be listed',
    async (at) => {
      const nameOf = (index: number): string => `name-${String(index).padStart(4, '0')}`;
      const names = Array.from({ length: 2500 }, (_, index) => nameOf(index));
      const zip = buildZip(names.map((name) => ({ name, data: 'x' })));
      const place = zip.lastIndexOf(nameOf(at)) - 46;
      zip.writeUInt8(0, place);
      const listed = `"${nameOf(at)}" cannot be listed`;
      await expect(readAll(zip)).rejects.toMatchObject({
        code: 'archive.damaged',
        message: expect.stringContaining(listed) as unknown,
      });
    },
  );

  it('if deflated bytes were changed', async () => {
    const zip = buildZip([{ name: 'a', data: LONG, method: 8 }]);
    for (const at of [100, 10_000, 1_000_000]) {
      const changed = Buffer.from(zip);
      changed.writeUInt8((changed.readUInt8(at) + 1) % 256, at);
      await expect(readAll(changed)).rejects.toMatchObject({ code: 'archive.damaged' });
    }
  });

  it.each([
    ['plain', {}],
    ['zip64', { zip64: true }],
    ['with data descriptors', { dataDescriptors: true }],
  ])('after a cut at any place (%s)', async (_name, knobs) => {
    const files = new Map([
      ['a.txt', Buffer.from('a')],
      ['deep/b.txt', Buffer.from(small)],
    ]);
    const zip = await zipOf(files, { ...defaultKnobs(), ...knobs });
    for (let length = 0; length < zip.length; length += 1) {
      await expect(readAll(zip.subarray(0, length)), `cut after ${length} bytes`).rejects.toMatchObject({
        code: 'archive.damaged',
      });
    }
  });

  it.each([
    ['behind it', (zip: Buffer) => Buffer.concat([zip, Buffer.alloc(100, '#')])],
    ['before it', (zip: Buffer) => Buffer.concat([Buffer.alloc(100, '#'), zip])],
    ['instead of it', () => Buffer.alloc(1000, '#')],
  ])('by bytes %s', async (_name, change) => {
    const zip = change(buildZip([{ name: 'a', data: small }]));
    await expect(readAll(zip)).rejects.toMatchObject({ code: 'archive.damaged' });
  });

  it('or gives the right bytes after a change of any single byte', async () => {
    const zip = buildZip([
      { name: 'a', data: small, method: 8 },
      { name: 'b', data: 'b' },
    ]);
    for (let at = 0; at < zip.length; at += 1) {
      const changed = Buffer.from(zip);
      changed.writeUInt8(changed.readUInt8(at) ^ 0x41, at);
      const outcome = await readAll(changed).then(
        (files) => Object.values(files).map(String),
        (error: unknown) => error,
      );
      if (Array.isArray(outcome)) {
        for (const text of outcome) expect(['b', small], `byte ${at}`).toContain(text);
      } else {
        expect(outcome, `byte ${at}`).toMatchObject({ code: expect.stringMatching(/^archive\./) as unknown });
      }
    }
  });
});
