import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, describe, expect, it, vi } from 'vitest';

import { BUFFER_BYTES, createBuffer, NewFile } from '../../../../src/mirror/file-work/new-file.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

type Calls = Pick<typeof fs, 'openSync' | 'writeSync'>;

/** The calls of the disk under test; null for those of the system. */
const calls = vi.hoisted(() => ({ open: null as unknown, write: null as unknown }));

vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>();
  return {
    ...real,
    openSync: (...args: Parameters<Calls['openSync']>) =>
      ((calls.open ?? real.openSync) as Calls['openSync'])(...args),
    // As `promisify` gives it.
    write: Object.assign(() => {}, {
      [Symbol.for('nodejs.util.promisify.custom')]: async (...args: Parameters<Calls['writeSync']>) => {
        await Promise.resolve();
        return { bytesWritten: ((calls.write ?? real.writeSync) as Calls['writeSync'])(...args) };
      },
    }),
  };
});

const real = await vi.importActual<typeof fs>('node:fs');

afterEach(() => {
  calls.open = null;
  calls.write = null;
});

function failure(code: string): Error {
  return Object.assign(new Error(code), { code, syscall: 'write' });
}

const MTIME_MS = 1_700_000_000_123;

async function made(
  isPastCache: boolean,
  sizeBytes: number,
): Promise<{ path: string; isRight: boolean; mode: number }> {
  const path = join(await temporaryFolder(), 'deep', 'file');
  const bytes = randomBytes(sizeBytes);
  const file = new NewFile(path, isPastCache);
  const buffer = createBuffer();
  let mode = 0;
  try {
    for (let at = 0; at < sizeBytes; at += BUFFER_BYTES) {
      const lengthBytes = bytes.copy(buffer, 0, at);
      await file.write(buffer.subarray(0, lengthBytes));
    }
    mode = file.finish(MTIME_MS);
  } finally {
    file.close();
  }
  const isRight = (await readFile(path)).equals(bytes) && (await stat(path)).mtimeMs === MTIME_MS;
  return { path, isRight, mode };
}

const SIZES = [0, 1, 511, 4096, 65_536, 1_048_575, 1_048_576, 1_048_577, 3_000_001];

describe.each([
  ['through the page cache', false],
  ['past the page cache', true],
])('a new file %s', (_what, isPastCache) => {
  it.each(SIZES)('of %i bytes has its bytes, its time and its mode', async (sizeBytes) => {
    expect(await made(isPastCache, sizeBytes)).toMatchObject({
      isRight: true,
      mode: 0o644 & ~process.umask(),
    });
  });

  it('takes the place of nothing', async () => {
    const path = join(await temporaryFolder(), 'file');
    await writeFile(path, 'theirs');
    expect(() => new NewFile(path, isPastCache)).toThrow(expect.objectContaining({ code: 'EEXIST' }));
    expect(await readFile(path, 'utf8')).toBe('theirs');
  });

  it.each(['ENOSPC', 'EIO', 'EDQUOT'])('fails by %s', async (code) => {
    calls.write = () => {
      throw failure(code);
    };
    await expect(made(isPastCache, 2_000_000)).rejects.toMatchObject({ code });
  });

  it('is whole where the system writes less than it is given', async () => {
    calls.write = (
      fd: number,
      bytes: Uint8Array,
      from = 0,
      length = bytes.length - from,
      position?: number,
    ) => real.writeSync(fd, bytes, from, Math.min(length, 65_536), position);
    expect((await made(isPastCache, 2_500_000)).isRight).toBe(true);
  });
});

describe('a file system that writes nothing past the page cache', () => {
  it.each(['EINVAL', 'EOPNOTSUPP'])('says so by %s when the file is opened', async (code) => {
    for (const isMade of [false, true]) {
      calls.open = (path: string, flags: number | string, mode?: number): number => {
        const isDirect = typeof flags === 'number' && (flags & fs.constants.O_DIRECT) !== 0;
        if (!isDirect) return real.openSync(path, flags, mode);
        if (isMade) real.closeSync(real.openSync(path, 'w'));
        throw failure(code);
      };
      expect((await made(true, 2_500_001)).isRight).toBe(true);
    }
  });

  it.each([0, 1, 2])('or as it writes, after %i pieces', async (pieces) => {
    let written = 0;
    const direct = new Set<number>();
    calls.open = (path: string, flags: number | string, mode?: number): number => {
      const fd = real.openSync(path, flags, mode);
      if (typeof flags === 'number' && (flags & fs.constants.O_DIRECT) !== 0) direct.add(fd);
      else direct.delete(fd);
      return fd;
    };
    calls.write = (fd: number, bytes: Uint8Array, from?: number, length?: number, position?: number) => {
      written += 1;
      if (direct.has(fd) && written > pieces) throw failure('EINVAL');
      return real.writeSync(fd, bytes, from, length, position);
    };
    expect((await made(true, 2_500_001)).isRight).toBe(true);
    expect(written).toBeGreaterThan(pieces);
  });

  it('and is full, fails by that', async () => {
    let isFirst = true;
    calls.write = () => {
      const code = isFirst ? 'EINVAL' : 'ENOSPC';
      isFirst = false;
      throw failure(code);
    };
    await expect(made(true, 2_000_000)).rejects.toMatchObject({ code: 'ENOSPC' });
  });
});
