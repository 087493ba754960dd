import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A file system on its own image, with a power switch. */
export interface Journaled {
  readonly folder: string;
  /** Flushes everything. */
  readonly flush: () => void;
  /** Cuts the power: loses everything unflushed, and mounts again. */
  readonly cutPower: (cut: Cut) => void;
  readonly remove: () => Promise<void>;
}

/** A file system in memory with limited space. */
export interface Limited {
  readonly folder: string;
  /** Limits the free blocks and inodes, or removes the limit. */
  readonly leave: (room: Room) => Promise<void>;
  readonly remove: () => Promise<void>;
}

/** The free space of a file system; null for no limit. */
export interface Room {
  readonly blocks: number | null;
  readonly inodes: number | null;
}

/** The file systems whose power is cut. By default, ext4 flushes more than requested, which would hide missing flushes. */
export const JOURNALED = {
  ext4: { make: ['mkfs.ext4', '-q', '-F'], options: 'loop,noauto_da_alloc', sizeBytes: 64 * 1024 * 1024 },
  // A copy has the same UUID as its original, which may still be mounted somewhere.
  xfs: { make: ['mkfs.xfs', '-q', '-f'], options: 'loop,nouuid', sizeBytes: 320 * 1024 * 1024 },
} as const;

/** One of {@link JOURNALED}. */
export type JournaledKind = keyof typeof JOURNALED;

/** The writes that still reach the disk at a power cut: the journal without data, or none. */
export const CUTS = { 'journal-flushed': 'shutdown -f', 'nothing-flushed': 'shutdown' } as const;

/** One of {@link CUTS}. */
export type Cut = keyof typeof CUTS;

/** The file system of a lane. */
export function ofLane<Mount>(mounts: readonly Mount[], lane: number): Mount {
  const mounted = mounts[lane];
  if (mounted === undefined) throw new Error('no file system for this lane');
  return mounted;
}

function command(name: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(name, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${name} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

function unmount(folder: string): void {
  if (spawnSync('umount', [folder]).status !== 0) spawnSync('umount', ['--lazy', folder]);
}

/** Mounts a file system of a kind on a new image. */
export function mountJournaled(kind: JournaledKind): Journaled {
  const root = mkdtempSync(join(tmpdir(), 'workbook-mirror-power-'));
  const folder = join(root, 'mounted');
  let image = join(root, 'image');
  const { make, options, sizeBytes } = JOURNALED[kind];
  const [maker, ...makerArgs] = make;
  const mount = (): void => command('mount', '-t', kind, '-o', options, image, folder);
  try {
    mkdirSync(folder);
    writeFileSync(image, '');
    truncateSync(image, sizeBytes);
    command(maker, ...makerArgs, image);
    mount();
  } catch (error) {
    rmSync(root, { recursive: true, force: true });
    throw error;
  }
  return {
    folder,
    flush: () => command('sync', '-f', folder),
    cutPower: (cut) => {
      command('xfs_io', '-x', '-c', CUTS[cut], folder);
      unmount(folder);
      image = replaceByCopy(image);
      mount();
    },
    remove: () => removeMount(root, folder),
  };
}

/**
 * Copies an image and removes it. A program with its own mount namespace may keep the old file system mounted, without power, and mounting
 * the same image again would show that one.
 * @returns the copy
 */
function replaceByCopy(image: string): string {
  const copy = join(dirname(image), randomUUID());
  command('cp', '--sparse=always', image, copy);
  rmSync(image);
  return copy;
}

const BLOCK_BYTES = 4096;
const AMPLE = { blocks: 131_072, inodes: 8192 };

/** Mounts a file system in memory. */
export function mountLimited(): Limited {
  const root = mkdtempSync(join(tmpdir(), 'workbook-mirror-full-'));
  const folder = join(root, 'mounted');
  mkdirSync(folder);
  const options = (blocks: number, inodes: number): string =>
    `size=${blocks * BLOCK_BYTES},nr_inodes=${inodes}`;
  try {
    command('mount', '-t', 'tmpfs', '-o', options(AMPLE.blocks, AMPLE.inodes), 'tmpfs', folder);
    // If nothing is in use, no space would be a size of 0, which means no limit (tmpfs(5)).
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(BLOCK_BYTES));
  } catch (error) {
    rmSync(root, { recursive: true, force: true });
    throw error;
  }
  return {
    folder,
    leave: async ({ blocks, inodes }) => {
      const used = await statfs(folder);
      const most = {
        blocks: blocks === null ? AMPLE.blocks : used.blocks - used.bfree + blocks,
        inodes: inodes === null ? AMPLE.inodes : used.files - used.ffree + inodes,
      };
      command('mount', '-o', `remount,${options(most.blocks, most.inodes)}`, folder);
    },
    remove: () => removeMount(root, folder),
  };
}

async function removeMount(root: string, folder: string): Promise<void> {
  unmount(folder);
  await rm(root, { recursive: true, force: true });
}

/** Whether this user may mount file systems here. */
export const canMount = ((): boolean => {
  try {
    void mountLimited().remove();
    return true;
  } catch {
    return false;
  }
})();

/** Whether a kind of file system can be made, mounted and cut off here. */
export function canCutPower(kind: JournaledKind): boolean {
  let mounted: Journaled | null = null;
  try {
    mounted = mountJournaled(kind);
    mounted.cutPower('nothing-flushed');
    return true;
  } catch {
    return false;
  } finally {
    void mounted?.remove();
  }
}
