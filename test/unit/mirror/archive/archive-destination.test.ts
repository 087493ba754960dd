import { randomBytes } from 'node:crypto';
import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';

import { ArchiveDestination } from '../../../../src/mirror/archive/archive-destination.ts';
import { ArchiveMemory } from '../../../../src/mirror/archive/archive-memory.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const MIB = 1024 * 1024;

let path = '';

beforeEach(async () => {
  path = join(await temporaryFolder(), 'archive');
});

/** Takes no entry for one that may be unpacked early. */
function destinationAt(file: string, memory: ArchiveMemory): ArchiveDestination {
  const policy = { folder: `${file}.early`, isNew: () => false, maxUnpackedBytes: 0, isPastCache: false };
  return new ArchiveDestination(file, memory, policy);
}

function isThere(): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Writes an archive in pieces. @returns it, and where it went */
async function written(
  destination: ArchiveDestination,
  sizeBytes: number,
  announcedBytes: number | null = null,
): Promise<{ archive: Buffer; kind: string; found: Buffer; start: Uint8Array }> {
  const archive = randomBytes(sizeBytes);
  await destination.begin(announcedBytes);
  for (let at = 0; at < sizeBytes; at += 65_536) {
    const wait = destination.write(archive.subarray(at, at + 65_536));
    expect(destination.sizeBytes).toBeGreaterThanOrEqual(at);
    await wait;
  }
  expect(destination.sizeBytes).toBe(sizeBytes);
  const start = await destination.readStart(512);
  await destination.close(true);
  const source = destination.source();
  const found = source.kind === 'file' ? await readFile(source.path) : Buffer.from(source.bytes);
  return { archive, kind: source.kind, found, start };
}

describe('an archive', () => {
  it.each([
    ['in memory', 3 * MIB, 8 * MIB, null, 'memory'],
    ['in memory, of a size that was said', 3 * MIB, 8 * MIB, 3 * MIB, 'memory'],
    ['first in memory, then in a file', 3 * MIB, 2 * MIB, null, 'file'],
    ['in a file, as there is no memory', 3 * MIB, 0, null, 'file'],
    ['in a file from the first byte on, as it is too great', 100_000, 8 * MIB, 65 * MIB, 'file'],
    ['without a byte', 0, 8 * MIB, null, 'memory'],
  ])('is kept %s', async (_what, sizeBytes, budgetBytes, announcedBytes, kind) => {
    const memory = new ArchiveMemory(budgetBytes);
    const destination = destinationAt(path, memory);
    const kept = await written(destination, sizeBytes, announcedBytes);
    expect(kept.kind).toBe(kind);
    expect(kept.found.equals(kept.archive)).toBe(true);
    expect(kept.archive.subarray(0, 512).equals(kept.start)).toBe(true);
    expect(await isThere()).toBe(kind === 'file');
    await destination.discard();
    expect(await isThere()).toBe(false);
    // All of it is free again.
    expect(memory.lend().put(new Uint8Array(budgetBytes), 0)).toBe(true);
  });

  it('that begins anew forgets what came before, wherever that was', async () => {
    for (const budgetBytes of [8 * MIB, MIB]) {
      const destination = destinationAt(path, new ArchiveMemory(budgetBytes));
      await destination.begin(null);
      await destination.write(randomBytes(2 * MIB));
      const { archive, found } = await written(destination, 300_000);
      expect(found.equals(archive)).toBe(true);
      await destination.discard();
    }
  });

  it('that is not kept leaves nothing, and another may come in its place', async () => {
    for (const budgetBytes of [8 * MIB, MIB]) {
      const destination = destinationAt(path, new ArchiveMemory(budgetBytes));
      await destination.begin(null);
      await destination.write(randomBytes(2 * MIB));
      await destination.close(false);
      expect(await isThere()).toBe(false);
      const { archive, found, kind } = await written(destination, 300_000);
      expect(found.equals(archive)).toBe(true);
      expect(kind).toBe('memory');
      await destination.discard();
    }
  });

  it('whose file cannot be made fails by the disk, and gives its memory back', async () => {
    const memory = new ArchiveMemory(MIB);
    const destination = destinationAt(join(path, 'missing'), memory);
    await destination.begin(null);
    await destination.write(randomBytes(MIB));
    await expect(destination.write(randomBytes(1))).rejects.toMatchObject({ code: 'disk.failed' });
    await destination.close(false);
    await destination.discard();
    expect(memory.lend().put(new Uint8Array(MIB), 0)).toBe(true);
  });
});
