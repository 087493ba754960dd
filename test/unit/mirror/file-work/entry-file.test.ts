import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, describe, expect, it, vi } from 'vitest';

import { EntryFile } from '../../../../src/mirror/file-work/entry-file.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

type Calls = Pick<typeof fs, 'openSync' | 'writeSync'>;

/** The disk calls under test; null for the calls of the system. */
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

function entryAt(place: string): EntryFile {
  return new EntryFile({ place, isDeflated: false, known: null, mostBytes: 10_000_000 });
}

/** Makes a file of random bytes. @returns whether it has them, and its mode */
async function made(sizeBytes: number): Promise<{ isRight: boolean; mode: number }> {
  const place = join(await temporaryFolder(), 'deep', 'file');
  const bytes = randomBytes(sizeBytes);
  const file = entryAt(place);
  try {
    for (let at = 0; at < sizeBytes; at += 300_000)
      await file.write(bytes.subarray(at, at + 300_000), at + 300_000 >= sizeBytes);
    const outcome = await file.end(null);
    if (outcome.kind !== 'written') throw new Error(`the outcome is ${outcome.kind}`);
    return { isRight: (await readFile(place)).equals(bytes), mode: outcome.mode };
  } finally {
    await file.close();
  }
}

const SIZES = [0, 1, 511, 4096, 65_536, 1_048_575, 1_048_576, 1_048_577, 2_097_152, 3_000_001];

it.each(SIZES)('a file of %i bytes has its bytes and its mode', async (sizeBytes) => {
  expect(await made(sizeBytes)).toEqual({ isRight: true, mode: 0o644 & ~process.umask() });
});

it.each([10, 2_000_000])('a file of %i bytes replaces nothing', async (sizeBytes) => {
  const place = join(await temporaryFolder(), 'file');
  await writeFile(place, 'theirs');
  const file = entryAt(place);
  await file.write(Buffer.alloc(sizeBytes), true);
  expect(await file.end(null)).toMatchObject({ kind: 'fault' });
  expect(await readFile(place, 'utf8')).toBe('theirs');
});

describe('a large file', () => {
  it.each(['ENOSPC', 'EIO', 'EDQUOT'])('fails by %s', async (code) => {
    calls.write = () => {
      // Another try would succeed.
      calls.write = null;
      throw failure(code);
    };
    await expect(made(2_000_000)).rejects.toMatchObject({ code });
  });

  it('is complete even if the system writes in smaller parts', async () => {
    calls.write = (
      fd: number,
      bytes: Uint8Array,
      from = 0,
      length = bytes.length - from,
      position?: number,
    ) => real.writeSync(fd, bytes, from, Math.min(length, 65_536), position);
    expect((await made(2_500_000)).isRight).toBe(true);
  });
});

describe('a file system without direct writes', () => {
  it.each(['EINVAL', 'EOPNOTSUPP'])('reports it by %s when the file is opened', async (code) => {
    for (const isMade of [false, true]) {
      calls.open = (path: string, flags: number | string, mode?: number): number => {
        const isDirect = typeof flags === 'number' && (flags & fs.constants.O_DIRECT) !== 0;
        if (!isDirect) return real.openSync(path, flags, mode);
        if (isMade) real.closeSync(real.openSync(path, 'w'));
        throw failure(code);
      };
      expect((await made(2_500_001)).isRight).toBe(true);
    }
  });

  it.each([0, 1, 2])('or during the write, after %i pieces', async (pieces) => {
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
    expect((await made(2_500_001)).isRight).toBe(true);
    expect(written).toBeGreaterThan(pieces);
  });

  it('fails because it is full', async () => {
    let isFirst = true;
    calls.write = () => {
      const code = isFirst ? 'EINVAL' : 'ENOSPC';
      isFirst = false;
      throw failure(code);
    };
    await expect(made(2_000_000)).rejects.toMatchObject({ code: 'ENOSPC' });
  });
});

it('an entry closed after its end does not release memory that another entry uses', async () => {
  const folder = await temporaryFolder();
  const entry = (name: string): EntryFile => entryAt(join(folder, name));
  const take = async (file: EntryFile, text: string): Promise<void> => {
    for (let at = 0; at < text.length; at += 1)
      await file.write(Buffer.from(text.slice(at, at + 1)), at === text.length - 1);
  };
  const ended = entry('ended');
  await take(ended, 'ab');
  await ended.end(null);
  const one = entry('one');
  await ended.close();
  const two = entry('two');
  await take(one, 'first');
  await take(two, 'other');
  await one.end(null);
  await two.end(null);
  expect(await readFile(join(folder, 'one'), 'utf8')).toBe('first');
});
