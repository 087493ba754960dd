import { constants } from 'node:fs';
import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { FileDestination } from '../../../../src/mirror/upstream/destination.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let path = '';

beforeEach(async () => {
  path = join(await temporaryFolder(), 'file');
});

describe('a file that a download goes to', () => {
  it('takes the place of one that is there, piece by piece', async () => {
    await writeFile(path, 'of an attempt before');
    const file = new FileDestination(path);
    await file.begin();
    for (const piece of ['D', 'EFG', '']) await file.write(Buffer.from(piece));
    expect(file.sizeBytes).toBe(4);
    expect(Buffer.from(await file.readStart(2)).toString()).toBe('DE');
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

  it('does not wait for the piece after one that took long, and writes it all the same', async () => {
    const file = new FileDestination(path);
    await file.begin();
    const clock = vi.spyOn(performance, 'now');
    clock.mockReturnValueOnce(0).mockReturnValueOnce(1000);
    expect(file.write(Buffer.from('a'))).toBeNull();
    clock.mockReturnValueOnce(0).mockReturnValueOnce(1);
    const written = file.write(Buffer.from('b'));
    expect(written).not.toBeNull();
    await written;
    clock.mockReturnValueOnce(0).mockReturnValueOnce(1);
    expect(file.write(Buffer.from('c'))).toBeNull();
    clock.mockRestore();
    await file.close(true);
    expect(await readFile(path, 'utf8')).toBe('abc');
  });

  it('says of a write that fails that it is the disk, whichever way it was made', async () => {
    const full = await open('/dev/full', constants.O_WRONLY);
    const file = new FileDestination(path);
    await file.begin();
    Object.assign(file, { file: full });
    expect(() => file.write(Buffer.from('a'))).toThrow(expect.objectContaining({ code: 'disk.full' }));
    const clock = vi.spyOn(performance, 'now').mockReturnValueOnce(0).mockReturnValueOnce(1000);
    await file.write(Buffer.alloc(0));
    clock.mockRestore();
    await expect(file.write(Buffer.from('a'))).rejects.toMatchObject({ code: 'disk.full' });
    await file.close(false);
  });
});
