import { describe, expect, it } from 'vitest';

import { locksFindings } from '../../../../src/cli/settings/findings.ts';
import { type LockReach, lockReachOf, mountText } from '../../../../src/lib/disk/lock-reach.ts';

function reachOf(fileSystem: string, options = ''): ReturnType<typeof lockReachOf> {
  return lockReachOf({ fileSystem, options: new Set(options.split(',')) });
}

describe('the reach of locks on a mount', () => {
  it.each<[string, string, LockReach, string | null]>([
    ['ext4', 'rw,errors=remount-ro', 'local', null],
    ['tmpfs', 'rw', 'local', null],
    ['nfs4', 'rw,vers=4.2,local_lock=none', 'shared', null],
    ['nfs', 'rw,vers=3,local_lock=none', 'shared', null],
    ['nfs', 'rw,vers=3,local_lock=posix', 'shared', null],
    ['nfs', 'rw,vers=3,nolock,local_lock=all', 'not-shared', 'nolock'],
    ['nfs', 'rw,vers=3,local_lock=flock', 'not-shared', 'local_lock=flock'],
    ['nfs', 'rw,vers=3,local_lock=all', 'not-shared', 'local_lock=all'],
    ['cifs', 'rw,vers=3.1.1', 'shared', null],
    ['cifs', 'rw,vers=3.1.1,nobrl', 'not-shared', 'nobrl'],
    ['smb3', 'rw,nobrl', 'not-shared', 'nobrl'],
    ['ceph', 'rw,name=admin', 'shared', null],
    ['fuse.glusterfs', 'rw,user_id=0', 'shared', null],
    ['fuse.sshfs', 'rw,user_id=0', 'not-shared', null],
    ['9p', 'rw,trans=virtio', 'not-shared', null],
    ['virtiofs', 'rw', 'not-shared', null],
    ['fuse', 'rw', 'unknown', null],
  ])('%s with %s: %s', (fileSystem, options, reach, option) => {
    expect(reachOf(fileSystem, options)).toEqual({ fileSystem, reach, option });
  });

  it('is reported with the option that decides it', () => {
    expect(mountText(reachOf('nfs', 'nolock'))).toBe('nfs with nolock');
    expect(mountText(reachOf('ext4'))).toBe('ext4');
  });
});

describe('config check', () => {
  const shown = (fileSystem: string, options: string, sharing: 'standby' | 'shard' | null): string[] => {
    const findings = locksFindings('/srv/m', reachOf(fileSystem, options), sharing);
    return findings.map(({ verdict, finding }) => `${verdict}: ${finding}`);
  };

  it.each([
    ['ext4', '', 'ok: /srv/m is on ext4, a file system of this machine alone'],
    ['nfs4', '', 'ok: /srv/m is on nfs4; other machines see its locks'],
    ['nfs', 'nolock', 'ok: /srv/m is on nfs with nolock; other machines do not see its locks'],
    ['fuse', '', 'ok: /srv/m is on fuse; it is unknown whether other machines see its locks'],
  ])('explains %s', (fileSystem, options, expected) => {
    expect(shown(fileSystem, options, null)).toEqual([expected]);
  });

  it('warns only if two instances would not see each other', () => {
    expect(shown('fuse.sshfs', '', 'standby')[1]).toMatch(/^warning: standby: /);
    expect(shown('fuse.sshfs', '', 'shard')[1]).toMatch(/^warning: shard: /);
    for (const other of ['ext4', 'nfs4', 'fuse']) expect(shown(other, '', 'standby')).toHaveLength(1);
    expect(locksFindings('/srv/m', null, 'standby')).toEqual([]);
  });
});
