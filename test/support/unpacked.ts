import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect } from 'vitest';

import { MirrorError } from '../../src/lib/errors/errors.ts';
import type { ArrivalOptions } from '../../src/mirror/archive/arrival.ts';
import {
  abandonArchive,
  feedArchive,
  finishArchive,
  type FinishedArchive,
  openArchive,
  type UnpackedArchive,
} from '../../src/mirror/archive/unpack.ts';
import { DEFAULT_LIMITS } from './archive-limits.ts';

/** How an archive is unpacked in a test. */
export interface UnpackOptions extends Partial<Omit<ArrivalOptions, 'tree' | 'tailPath'>> {
  /** The sizes of the pieces in which it comes, again and again; left out, it comes whole. */
  readonly pieces?: readonly number[];
}

/** An archive that was unpacked, and the bytes of its files by their paths. */
export type Unpacked<Archive = UnpackedArchive> = Archive & {
  readonly files: Readonly<Record<string, Buffer>>;
};

let lastId = 0;

/** Unpacks an archive as a thread does, into a temporary folder. */
export async function unpackZip(
  zip: Uint8Array,
  options: UnpackOptions = {},
): Promise<Unpacked<FinishedArchive>> {
  const { pieces = [zip.length], ...given } = options;
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  const tree = join(folder, 'tree');
  const id = (lastId += 1);
  await openArchive({
    id,
    tree,
    tailPath: join(folder, 'tail'),
    isSaved: false,
    limits: DEFAULT_LIMITS,
    isPastCache: false,
    known: [],
    ...given,
  });
  try {
    for (let at = 0, count = 0; at < zip.length; count += 1) {
      const end = at + Math.max(1, pieces[count % pieces.length] ?? zip.length);
      // A copy each, which is overwritten: what comes is lent.
      const piece = new Uint8Array(zip.subarray(at, end));
      await feedArchive({ id, memory: piece.buffer, lengthBytes: piece.length });
      piece.fill(0xee);
      at = end;
    }
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const finished = await finishArchive({ id, stop }, () => {});
    if (finished.kind === 'lost') return { ...finished, files: {} };
    const files = await filesIn(tree);
    return { ...finished, entries: alike(finished), files };
  } finally {
    await abandonArchive({ id });
    expect(await readdir(folder)).not.toContain('tail');
    await rm(folder, { recursive: true });
  }
}

/** The entries with the times of their files left out: those are made right later, where they are not. */
function alike({ entries }: UnpackedArchive): UnpackedArchive['entries'] {
  return entries.map((entry) => {
    const { content } = entry;
    return content.kind === 'same' ? entry : { ...entry, content: { ...content, timeMs: 0 } };
  });
}

async function filesIn(tree: string): Promise<Record<string, Buffer>> {
  const found = await readdir(tree, { recursive: true, withFileTypes: true }).catch(() => []);
  const paths = found.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  return Object.fromEntries(
    await Promise.all(
      paths.map(async (path) => [path.slice(tree.length + 1), await readFile(path)] as const),
    ),
  );
}

/** Greater ones take long in tiny pieces. */
const SMALL_BYTES = 1_000_000;

/**
 * Unpacks an archive from a saved file, and while it arrives in pieces of several sizes, which must come to the same unless the archive
 * has to be saved first.
 * @throws MirrorError as unpacking it does
 */
export async function readZip(
  zip: Uint8Array,
  options: UnpackOptions = {},
  sizes: readonly (readonly number[])[] = [
    [zip.length],
    zip.length < SMALL_BYTES ? [7, 100, 4093] : [65_000],
  ],
): Promise<Unpacked> {
  const saved = await attempt(() => unpackZip(zip, { ...options, isSaved: true }));
  for (const pieces of sizes) {
    const arrived = await attempt(() => unpackZip(zip, { ...options, pieces }));
    if (arrived instanceof MirrorError || arrived.kind !== 'lost') expect(arrived).toStrictEqual(saved);
  }
  if (saved instanceof MirrorError) throw saved;
  if (saved.kind === 'lost') throw new Error('a saved archive cannot be lost');
  const written = saved.entries.filter(({ content }) => content.kind === 'written');
  expect(Object.keys(saved.files).sort()).toStrictEqual(written.map(({ path }) => path).sort());
  return saved;
}

async function attempt<T>(work: () => Promise<T>): Promise<T | MirrorError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MirrorError) return error;
    throw error;
  }
}
