import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { createFileWriter } from '../../../../src/mirror/upstream/file-writer.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function writing(write: (file: FileHandle) => Promise<void>): Promise<string> {
  const path = join(await temporaryFolder(), 'file');
  const file = await open(path, 'wx');
  try {
    await write(file);
  } finally {
    await file.close();
  }
  return readFile(path, 'utf8');
}

describe('a writer', () => {
  it('writes one piece after the other, from where it is told to', async () => {
    const text = await writing(async (file) => {
      await file.write('abcdef');
      const writer = createFileWriter(file, 3);
      for (const piece of ['D', 'EFG', '']) await writer.write(Buffer.from(piece));
      expect(writer.endBytes()).toBe(7);
    });
    expect(text).toBe('abcDEFG');
  });

  it('does not wait for the piece after one that took long, and writes it all the same', async () => {
    const clock = vi.spyOn(performance, 'now');
    const text = await writing(async (file) => {
      const writer = createFileWriter(file, 0);
      clock.mockReturnValueOnce(0).mockReturnValueOnce(1000);
      expect(writer.write(Buffer.from('a'))).toBeNull();
      clock.mockReturnValueOnce(0).mockReturnValueOnce(1);
      const written = writer.write(Buffer.from('b'));
      expect(written).not.toBeNull();
      await written;
      clock.mockReturnValueOnce(0).mockReturnValueOnce(1);
      expect(writer.write(Buffer.from('c'))).toBeNull();
    });
    clock.mockRestore();
    expect(text).toBe('abc');
  });

  it('says of a write that fails that it is the disk, whichever way it was made', async () => {
    const path = join(await temporaryFolder(), 'file');
    await (await open(path, 'wx')).close();
    const file = await open(path, 'r');
    const writer = createFileWriter(file, 0);
    expect(() => writer.write(Buffer.from('a'))).toThrow(expect.objectContaining({ code: 'disk.failed' }));
    const clock = vi.spyOn(performance, 'now').mockReturnValueOnce(0).mockReturnValueOnce(1000);
    await writer.write(Buffer.alloc(0));
    clock.mockRestore();
    await expect(writer.write(Buffer.from('a'))).rejects.toMatchObject({ code: 'disk.failed' });
    await file.close();
  });
});
