import { describe, expect, it } from 'vitest';

import { FakeKnobs, zipOf } from '../../../support/fake-service.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { readZip } from '../../../support/unpacked.ts';

async function readAll(zip: Uint8Array): Promise<Readonly<Record<string, Buffer>>> {
  return (await readZip(zip)).files;
}

describe('a sound archive is read', () => {
  it('with more entries than are listed together, in the order of the file', async () => {
    const names = Array.from({ length: 2500 }, (_, index) => `folder ${index % 7}/${index}`);
    const archive = await readZip(buildZip(names.map((name) => ({ name, data: name }))));
    expect(archive.entries.map(({ path }) => path)).toStrictEqual(names);
  });
});

describe('an archive is found damaged', () => {
  const small = 'some text '.repeat(50);

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

  it.each([
    ['plain', {}],
    ['zip64', { zip64: true }],
    ['with data descriptors', { dataDescriptors: true }],
  ])('after a cut at any place (%s)', async (_name, knobs) => {
    const files = new Map([
      ['a.txt', Buffer.from('a')],
      ['deep/b.txt', Buffer.from(small)],
    ]);
    const zip = await zipOf(files, Object.assign(new FakeKnobs(), knobs));
    for (let length = 0; length < zip.length; length += 1) {
      await expect(readAll(zip.subarray(0, length)), `cut after ${length} bytes`).rejects.toMatchObject({
        code: 'archive.damaged',
      });
    }
  });
});
