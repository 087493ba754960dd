import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { MessageChannel } from 'node:worker_threads';

import { expect } from 'vitest';

import { MirrorError } from '../../src/lib/errors/errors.ts';
import type { ArchivePart } from '../../src/mirror/archive/source.ts';
import { receiveArchive, type UnpackOptions as AllOptions } from '../../src/mirror/archive/unpack.ts';
import { DEFAULT_LIMITS } from './archive-limits.ts';

/** Options of unpacking in a test. */
export interface UnpackOptions extends Partial<Omit<AllOptions, 'tree' | 'keptPath' | 'parts'>> {
  /** The sizes of its pieces, repeated; whole by default. */
  readonly pieces?: readonly number[];
}

/** An unpacked archive, and the bytes of its files by path. */
export type Unpacked = Awaited<ReturnType<typeof unpackZip>>;

/** Unpacks an archive as a thread does, into a temporary folder. @throws MirrorError as `receiveArchive` */
export async function unpackZip(zip: Uint8Array, options: UnpackOptions = {}) {
  const { pieces = [zip.length], ...given } = options;
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  const [tree, keptPath] = [join(folder, 'tree'), join(folder, 'kept')];
  await mkdir(tree);
  const { port1: port, port2: parts } = new MessageChannel();
  const all = { tree, keptPath, limits: DEFAULT_LIMITS, known: [], parts, ...given };
  const received = receiveArchive(all);
  received.catch(() => {});
  try {
    for (let at = 0, count = 0; at < zip.length; count += 1) {
      const end = at + Math.max(1, pieces[count % pieces.length] ?? zip.length);
      const { buffer: memory, length: lengthBytes } = new Uint8Array(zip.subarray(at, end));
      port.postMessage({ memory, lengthBytes } satisfies ArchivePart, [memory]);
      at = end;
    }
    port.postMessage('end' satisfies ArchivePart);
    const unpacked = await received;
    return { ...unpacked, files: await filesIn(tree) };
  } finally {
    port.close();
    expect(await readdir(folder)).toEqual(['tree']);
    await rm(folder, { recursive: true });
  }
}

async function filesIn(tree: string): Promise<Record<string, Buffer>> {
  const files: Record<string, Buffer> = {};
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true }).catch(() => [])) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile()) files[relative(tree, file)] = await readFile(file);
  }
  return files;
}

/** Larger archives take long in tiny pieces. */
const SMALL_BYTES = 1_000_000;

/**
 * Unpacks an archive in pieces of several sizes, and expects the same result.
 * @throws MirrorError the error of unpacking
 */
export async function readZip(
  zip: Uint8Array,
  options: UnpackOptions = {},
  sizes: readonly (readonly number[])[] = [zip.length < SMALL_BYTES ? [7, 100, 4093] : [65_000]],
): Promise<Unpacked> {
  const found = await attempt(() => unpackZip(zip, options));
  for (const pieces of sizes)
    expect(await attempt(() => unpackZip(zip, { ...options, pieces }))).toStrictEqual(found);
  if (found instanceof MirrorError) throw found;
  const written = found.entries.filter(({ content }) => content.kind === 'written');
  expect(Object.keys(found.files).sort()).toStrictEqual(written.map(({ path }) => path).sort());
  return found;
}

async function attempt<T>(work: () => Promise<T>): Promise<T | MirrorError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MirrorError) return error;
    throw error;
  }
}
