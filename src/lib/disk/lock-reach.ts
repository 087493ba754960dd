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

/** File systems on disks, in memory, or made of others, that only the kernel of one machine uses. */
const LOCAL: ReadonlySet<string> = new Set(
  'bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs nilfs2 ntfs3 overlay ramfs reiserfs tmpfs ubifs vfat xfs zfs'.split(
    ' ',
  ),
);

/**
 * File systems with locks that all machines see. CephFS: by its metadata servers (Linux, fs/ceph/locks.c). GlusterFS: by its
 * bricks, as the tests try.
 */
const SHARED: ReadonlySet<string> = new Set(['ceph', 'fuse.ceph', 'fuse.ceph-fuse', 'fuse.glusterfs']);

/**
 * File systems that do not show their locks, or have none. For those in user space the kernel then keeps locks itself, separately
 * for each mount (libfuse, `fuse_operations.flock`). 9p: QEMU accepts every lock and keeps none (hw/9pfs/9p.c, `v9fs_lock`). virtiofs:
 * each guest keeps its locks, unless the daemon is set otherwise, which the mount does not show (virtiofsd, `remote-locks`). OrangeFS:
 * `local_lock` is all that it has (Linux, Documentation/filesystems/orangefs.rst).
 */
const NOT_SHARED: ReadonlySet<string> = new Set([
  '9p',
  'fuse.blobfuse2',
  'fuse.gcsfuse',
  'fuse.goofys',
  'fuse.mount-s3',
  'fuse.rclone',
  'fuse.s3fs',
  'fuse.sshfs',
  'fuse.vmhgfs-fuse',
  'pvfs2',
  'vboxsf',
  'virtiofs',
]);

/** How far locks reach on file systems whose options decide it. */
interface OptionRule {
  /** The options that keep locks on this machine. */
  readonly local: readonly string[];
  /** The option that locks need to reach further; null if none is needed. */
  readonly needed: string | null;
}

/**
 * NFS: nfs(5), `local_lock` and `nolock`; without these flock(2) locks are the server's, since Linux 2.6.12 (flock(2), "NFS details").
 * SMB: mount.cifs(8), `nobrl`; otherwise they are byte-range locks of the server, since Linux 5.5 (flock(2), "CIFS details").
 * Lustre: mount.lustre(8), `flock` and `localflock`. OCFS2: Linux, Documentation/filesystems/ocfs2.rst, `localflocks`. GFS2: gfs2(5),
 * `localflocks`, which `lock_nolock` brings along. AFS: Linux, fs/afs/super.c, `flock=local`.
 */
const BY_OPTION: ReadonlyMap<string, OptionRule> = new Map([
  ['nfs', { local: ['nolock', 'local_lock=flock', 'local_lock=all'], needed: null }],
  // Version 4 has locks of its own: those options are for the versions before it.
  ['nfs4', { local: [], needed: null }],
  ['cifs', { local: ['nobrl'], needed: null }],
  ['smb3', { local: ['nobrl'], needed: null }],
  ['lustre', { local: ['localflock', 'noflock'], needed: 'flock' }],
  ['ocfs2', { local: ['localflocks'], needed: null }],
  ['gfs2', { local: ['localflocks', 'lockproto=lock_nolock'], needed: null }],
  ['afs', { local: ['flock=local'], needed: null }],
]);

/** Derives from a mount how far its locks reach. */
export function lockReachOf({ fileSystem, options }: Pick<Mount, 'fileSystem' | 'options'>): MountLocks {
  const rule = BY_OPTION.get(fileSystem);
  if (rule === undefined) return { fileSystem, reach: reachOfType(fileSystem), option: null };
  const option = rule.local.find((each) => options.has(each)) ?? null;
  const isLocal = option !== null || (rule.needed !== null && !options.has(rule.needed));
  return { fileSystem, reach: isLocal ? 'not-shared' : 'shared', option };
}

function reachOfType(fileSystem: string): LockReach {
  if (LOCAL.has(fileSystem)) return 'local';
  if (SHARED.has(fileSystem)) return 'shared';
  return NOT_SHARED.has(fileSystem) ? 'not-shared' : 'unknown';
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
