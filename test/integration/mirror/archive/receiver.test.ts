import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';

import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';

import { ArchiveReceiver } from '../../../../src/mirror/archive/receiver.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { buildZip, descriptor } from '../../../support/zip-builder.ts';

const MIB = 1024 * 1024;

const FILES = {
  'a/large.xlsx': randomBytes(3 * MIB),
  'a/small.txt': Buffer.from('small'),
  b: randomBytes(MIB),
};
const OTHERS = { 'a/large.xlsx': randomBytes(3 * MIB), c: Buffer.from('other') };

function zipOf(files: Readonly<Record<string, Buffer>>): Buffer {
  return buildZip(
    Object.entries(files).map(([name, data], index) => ({ name, data, method: index % 2 === 0 ? 8 : 0 })),
  );
}

const [ZIP, OTHER] = [zipOf(FILES), zipOf(OTHERS)];

let folder = '';
let tree = '';

beforeEach(async () => {
  folder = await temporaryFolder();
  tree = join(folder, 'tree');
  await mkdir(tree);
});

function receiver(): ArchiveReceiver {
  return new ArchiveReceiver({
    tree,
    keptPath: join(folder, 'kept'),
    limits: DEFAULT_LIMITS,
    known: [],
  });
}

async function send(into: ArchiveReceiver, bytes: Buffer, pieceBytes = 100_000): Promise<void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const piece = Buffer.from(bytes.subarray(at, at + pieceBytes));
    await into.write(piece);
    piece.fill(0xee);
  }
}

function finish(from: ArchiveReceiver): ReturnType<ArchiveReceiver['finish']> {
  return from.finish(() => {}, new AbortController().signal);
}

async function filesIn(path: string): Promise<Record<string, Buffer>> {
  const found = await readdir(path, { recursive: true, withFileTypes: true });
  const files = found.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  return Object.fromEntries(
    await Promise.all(
      files.map(async (file) => [file.slice(path.length + 1), await readFile(file)] as const),
    ),
  );
}

async function expectFiles(expected: Readonly<Record<string, Buffer>>): Promise<void> {
  const found = await filesIn(tree);
  expect(Object.keys(found).sort()).toEqual(Object.keys(expected).sort());
  for (const [path, bytes] of Object.entries(expected)) expect(found[path]?.equals(bytes), path).toBe(true);
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
  await expect(into.close(true)).rejects.toMatchObject({ code: 'disk.failed' });
  await into.release();
});

it('several archives can arrive at a time', async () => {
  const trees = Array.from({ length: 5 }, (_, index) => join(folder, `tree ${index}`));
  await Promise.all(
    trees.map(async (path, index) => {
      await mkdir(path);
      tree = path;
      const into = receiver();
      await into.begin();
      await send(into, index % 2 === 0 ? ZIP : OTHER, 50_000 + index);
      await into.close(true);
      expect(await finish(into)).toMatchObject({ skipped: [] });
      await into.release();
    }),
  );
  for (const [index, path] of trees.entries()) {
    tree = path;
    await expectFiles(index % 2 === 0 ? FILES : OTHERS);
  }
});

/** A receiver of an archive that must be kept until its directory has come. */
async function receiverOfKept(): Promise<ArchiveReceiver> {
  const data = Buffer.from('stored without a length before it');
  const behind = descriptor(crc32(data), data.length, data.length);
  const unending = { name: 'first', data, flags: 8, behind, local: { crc: 0, compressedSize: 0, size: 0 } };
  const into = receiver();
  await into.begin();
  await send(into, buildZip([unending, { name: 'large', data: randomBytes(20 * MIB) }]));
  await into.close(true);
  return into;
}

it('an archive that was kept shows progress of its unpacking', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const into = await receiverOfKept();
  const onProgress = vi.fn<() => void>();
  const state = { hasEnded: false };
  const finished = into
    .finish(onProgress, new AbortController().signal)
    .finally(() => (state.hasEnded = true));
  while (!state.hasEnded) {
    vi.advanceTimersByTime(1000);
    await setImmediate();
  }
  await finished;
  expect(onProgress).toHaveBeenCalled();
  await into.release();
});

it('an archive whose unpacking is cancelled ends immediately', async () => {
  const into = await receiverOfKept();
  const control = new AbortController();
  const finished = into.finish(() => {}, control.signal);
  control.abort(new Error('called off'));
  await expect(finished).rejects.toThrow('called off');
  await into.release();
  expect(await readdir(folder)).toEqual(['tree']);
});
