import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ArchiveSource } from '../../src/mirror/archive/archive-destination.ts';
import type { Archive } from '../../src/mirror/archive/archive.ts';

/** The bytes of an archive's entries, in their order, as they come to files. */
export async function bytesOfEntries({ entries, extract }: Archive): Promise<Buffer[]> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  try {
    const places = entries.map((_, index) => join(folder, String(index)));
    await extract(
      entries.map((entry, index) => ({
        entry,
        destination: places[index] ?? '',
        mtimeMs: 0,
        keptTimeMs: 0,
        known: null,
        candidates: [],
      })),
      { isPastCache: false, signal: new AbortController().signal, onBytes: () => {} },
    );
    return await Promise.all(places.map((place) => readFile(place)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The bytes of a file as an archive in memory. */
export async function inMemory(path: string): Promise<ArchiveSource> {
  const content = await readFile(path);
  const bytes = new Uint8Array(new SharedArrayBuffer(content.length));
  bytes.set(content);
  return { kind: 'memory', bytes };
}

/** An archive in a file, of which nothing is unpacked. */
export function inFile(path: string): ArchiveSource {
  return { kind: 'file', path, early: new Map() };
}
