import { findMount, type Mount } from './mounts.ts';

/**
 * Which processes see the locks (flock(2)) on a file system:
 *
 * - `local`: all processes of this machine, which alone uses it.
 * - `shared`: also other machines that mount it.
 * - `not-shared`: not the other machines that mount it.
 * - `unknown`: the mount does not say.
 */
export type LockReach = 'local' | 'shared' | 'not-shared' | 'unknown';

/** How far locks reach on a mount. */
export interface MountLocks {
  /** The type of the file system: `nfs4`. */
  readonly fileSystem: string;
  readonly reach: LockReach;
  /** The mount option that decides it: `local_lock=all`. Null if the type of the file system does. */
  readonly option: string | null;
}

/** Gives several file systems, by their types between spaces, the same reach. */
function all(reach: LockReach, fileSystems: string): [string, LockReach][] {
  return fileSystems.split(' ').map((fileSystem) => [fileSystem, reach]);
}

/** The reach by the type of the file system or, where options decide it, the options that keep locks on this machine. */
const RULES: ReadonlyMap<string, LockReach | readonly string[]> = new Map<
  string,
  LockReach | readonly string[]
>([
  // On disks, in memory, or made of others: only the kernel of one machine uses them.
  ...all('local', 'bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs nilfs2 ntfs3 overlay ramfs reiserfs tmpfs'),
  ...all('local', 'ubifs vfat xfs zfs'),
  // CephFS: by its metadata servers (Linux, fs/ceph/locks.c). GlusterFS: by its bricks, as the tests try.
  ...all('shared', 'ceph fuse.ceph fuse.ceph-fuse fuse.glusterfs'),
  // These do not show their locks, or have none. For those in user space the kernel then keeps locks itself, separately for each
  // mount (libfuse, `fuse_operations.flock`). 9p: QEMU accepts every lock and keeps none (hw/9pfs/9p.c, `v9fs_lock`). virtiofs: each
  // guest keeps its locks, unless the daemon is set otherwise, which the mount does not show (virtiofsd, `remote-locks`).
  ...all('not-shared', '9p fuse.blobfuse2 fuse.gcsfuse fuse.goofys fuse.mount-s3 fuse.rclone fuse.s3fs'),
  ...all('not-shared', 'fuse.sshfs fuse.vmhgfs-fuse vboxsf virtiofs'),
  // Without the options of nfs(5), flock(2) locks are the server's, since Linux 2.6.12 (flock(2), "NFS details").
  ['nfs', ['nolock', 'local_lock=flock', 'local_lock=all']],
  // Version 4 has locks of its own: those options are for the versions before it.
  ['nfs4', 'shared'],
  // Without the option of mount.cifs(8), they are byte-range locks of the server, since Linux 5.5 (flock(2), "CIFS details").
  ['cifs', ['nobrl']],
  ['smb3', ['nobrl']],
]);

/** Derives from a mount how far its locks reach. */
export function lockReachOf({ fileSystem, options }: Pick<Mount, 'fileSystem' | 'options'>): MountLocks {
  const rule = RULES.get(fileSystem) ?? 'unknown';
  if (typeof rule === 'string') return { fileSystem, reach: rule, option: null };
  const option = rule.find((each) => options.has(each)) ?? null;
  return { fileSystem, reach: option === null ? 'shared' : 'not-shared', option };
}

/** Finds out how far locks in a folder reach, which need not exist yet; null if the system does not say. */
export async function locksIn(folder: string): Promise<MountLocks | null> {
  const mount = await findMount(folder);
  return mount === null ? null : lockReachOf(mount);
}

/** A short description of a mount: `nfs with local_lock=all`. */
export function mountText({ fileSystem, option }: Pick<MountLocks, 'fileSystem' | 'option'>): string {
  return option === null ? fileSystem : `${fileSystem} with ${option}`;
}
