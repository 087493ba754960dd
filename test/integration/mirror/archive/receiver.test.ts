import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

import { beforeEach, expect, it, vi } from 'vitest';

import { ArchiveReceiver } from '../../../../src/mirror/archive/receiver.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { buildZip, descriptor } from '../../../support/zip-builder.ts';

const MIB = 1024 * 1024;

const ZIP = buildZip([
  { name: 'a/large.xlsx', data: randomBytes(3 * MIB), method: 8 },
  { name: 'a/small.txt', data: 'small' },
]);

let folder = '';
let tree = '';

beforeEach(async () => {
  folder = await temporaryFolder();
  tree = join(folder, 'tree');
  await mkdir(tree);
});

function receiver(onProgress = (): void => {}): ArchiveReceiver {
  const options = { tree, keptPath: join(folder, 'kept'), limits: DEFAULT_LIMITS, known: [] };
  return new ArchiveReceiver(options, onProgress);
}

async function send(into: ArchiveReceiver, bytes: Buffer, pieceBytes = 100_000): Promise<void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const piece = Buffer.from(bytes.subarray(at, at + pieceBytes));
    await into.write(piece);
    piece.fill(0xee);
  }
}

it('a download that is abandoned leaves nothing open', async () => {
  const into = receiver();
  await into.begin();
  await send(into, ZIP.subarray(0, 2 * MIB));
  await into.close(false);
  await into.release();
  expect(await readdir(folder)).toEqual(['tree']);
});

it('a missing folder fails the download as a disk error', async () => {
  tree = join(folder, 'other');
  const into = receiver();
  await into.begin();
  await send(into, ZIP).catch(() => {});
  await into.close(true);
  const finished = into.finish(new AbortController().signal);
  await expect(finished).rejects.toMatchObject({ code: 'disk.failed' });
  await into.release();
});

/** A receiver of an archive that must be kept until its directory has come. */
async function receiverOfKept(onProgress?: () => void): Promise<ArchiveReceiver> {
  const data = Buffer.from('stored without a length before it');
  const behind = descriptor(crc32(data), data.length, data.length);
  const unending = { name: 'first', data, flags: 8, behind, local: { crc: 0, compressedSize: 0, size: 0 } };
  const into = receiver(onProgress);
  await into.begin();
  await send(into, buildZip([unending, { name: 'large', data: randomBytes(20 * MIB) }]));
  await into.close(true);
  return into;
}

it('an archive that was kept shows progress of its unpacking', async () => {
  const onProgress = vi.fn<() => void>();
  const into = await receiverOfKept(onProgress);
  await into.finish(new AbortController().signal);
  expect(onProgress.mock.calls.length).toBeGreaterThan(10);
  await into.release();
});

it('an archive whose unpacking is cancelled ends immediately', async () => {
  const into = await receiverOfKept();
  const control = new AbortController();
  const finished = into.finish(control.signal);
  control.abort(new Error('called off'));
  await expect(finished).rejects.toThrow('called off');
  await into.release();
  expect(await readdir(folder)).toEqual(['tree']);
});
