import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system on its own image, with a power switch. */
export type Journaled = ReturnType<typeof mountJournaled>;

/** A file system in memory with limited space. */
export type Limited = ReturnType<typeof mountLimited>;

/** The free space of a file system, in blocks of 4 KiB and in inodes; no limit if left out. */
export interface Room {
  readonly blocks?: number;
  readonly inodes?: number;
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

/** Mounts a file system for each lane when it is first used. */
export function mountsOf<Mount extends { readonly remove: () => void }>(mount: () => Mount) {
  const mounts: Mount[] = [];
  return {
    of: (lane: number): Mount => (mounts[lane] ??= mount()),
    close: () => Promise.resolve(Object.values(mounts).forEach((each) => each.remove())),
  };
}

function command(name: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(name, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${name} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

function unmount(folder: string): void {
  if (spawnSync('umount', [folder]).status !== 0) spawnSync('umount', ['--lazy', folder]);
}

/** Mounts a file system on a folder below a new one, which is removed with it. @param mount returns how it can be used */
function mountBelow<Use extends object>(purpose: string, mount: (root: string, folder: string) => Use) {
  const root = mkdtempSync(join(tmpdir(), `workbook-mirror-${purpose}-`));
  const folder = join(root, 'mounted');
  mkdirSync(folder);
  const remove = (): void => {
    unmount(folder);
    rmSync(root, { recursive: true, force: true });
  };
  try {
    return { folder, remove, ...mount(root, folder) };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Mounts a file system of a kind on a new image. */
export function mountJournaled(kind: JournaledKind) {
  const { make, options, sizeBytes } = JOURNALED[kind];
  const [maker, ...makerArgs] = make;
  return mountBelow('power', (root, folder) => {
    let image = join(root, 'image');
    const mount = (): void => command('mount', '-t', kind, '-o', options, image, folder);
    writeFileSync(image, '');
    truncateSync(image, sizeBytes);
    command(maker, ...makerArgs, image);
    mount();
    return {
      /** Flushes everything. */
      flush: () => command('sync', '-f', folder),
      /**
       * Cuts the power: loses everything unflushed, and mounts a copy of the image. A program with its own mount namespace may keep the
       * old file system mounted, without power, and mounting the same image again would show that one.
       */
      cutPower: (cut: Cut) => {
        command('xfs_io', '-x', '-c', CUTS[cut], folder);
        unmount(folder);
        const copy = join(root, randomUUID());
        command('cp', '--sparse=always', image, copy);
        rmSync(image);
        image = copy;
        mount();
      },
    };
  });
}

const BLOCK_BYTES = 4096;

/** Mounts a file system in memory. */
export function mountLimited() {
  return mountBelow('full', (_root, folder) => {
    const options = (blocks = 131_072, inodes = 8192): string =>
      `size=${blocks * BLOCK_BYTES},nr_inodes=${inodes}`;
    command('mount', '-t', 'tmpfs', '-o', options(), 'tmpfs', folder);
    // If nothing is in use, no space would be a size of 0, which means no limit (tmpfs(5)).
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(BLOCK_BYTES));
    return {
      /** Limits the free blocks and inodes, or removes the limit. */
      leave: ({ blocks, inodes }: Room) => {
        const used = statfsSync(folder);
        const most = options(
          blocks === undefined ? blocks : used.blocks - used.bfree + blocks,
          inodes === undefined ? inodes : used.files - used.ffree + inodes,
        );
        command('mount', '-o', `remount,${most}`, folder);
      },
    };
  });
}

function works(attempt: () => void): boolean {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

/** Whether this user may mount file systems here. */
export const canMount = works(() => mountLimited().remove());

/** Whether a kind of file system can be made, mounted and cut off here. */
export function canCutPower(kind: JournaledKind): boolean {
  return works(() => {
    const mounted = mountJournaled(kind);
    try {
      mounted.cutPower('nothing-flushed');
    } finally {
      mounted.remove();
    }
  });
}
