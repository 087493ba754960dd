import { describe, expect, it } from 'vitest';

import { FakeKnobs, zipOf } from '../../../support/fake-service.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { readZip } from '../../../support/unpacked.ts';

async function readAll(zip: Uint8Array): Promise<Readonly<Record<string, Buffer>>> {
  return (await readZip(zip)).files;
}

describe('an archive is found damaged', () => {
  const small = 'some text '.repeat(50);

  it('by an entry that cannot be listed, which is named', async () => {
    const zip = buildZip(['a', 'bad', 'c'].map((name) => ({ name, data: 'x' })));
    zip.writeUInt8(0, zip.lastIndexOf('bad') - 46);
    await expect(readAll(zip)).rejects.toMatchObject({
      code: 'archive.damaged',
      message: expect.stringContaining('"bad" cannot be listed') as unknown,
    });
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
    const zip = await zipOf(files, Object.assign(new FakeKnobs(), knobs));
    for (let length = 0; length < zip.length; length += 1) {
      await expect(readAll(zip.subarray(0, length)), `cut after ${length} bytes`).rejects.toMatchObject({
        code: 'archive.damaged',
      });
    }
  });
});
