import { execFileSync } from 'node:child_process';
import { closeSync, constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { readNow, withOpen } from '../../../../src/lib/disk/read.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('withOpen gives the data even if closing fails', async () => {
  const file = join(await temporaryFolder(), 'a');
  await writeFile(file, 'text');
  const read = withOpen(file, constants.O_RDONLY, async (handle) => {
    const text = await handle.readFile('utf8');
    // Now closing the handle fails with EBADF.
    closeSync(handle.fd);
    return text;
  });
  expect(await read).toBe('text');
  expect(readNow(file).bytes.toString()).toBe('text');
  await expect(withOpen(`${file}b`, constants.O_RDONLY, (handle) => handle.stat())).rejects.toThrow('ENOENT');
  expect(() => readNow(`${file}b`)).toThrow('ENOENT');
});

it('readNow reads no device, and no pipe', async () => {
  const pipe = join(await temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const path of ['/dev/zero', pipe, '/']) expect(() => readNow(path)).toThrow(/^EISDIR/);
});
