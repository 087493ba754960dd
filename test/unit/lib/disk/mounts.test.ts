import { mkdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { findMount, mountOf, parseMounts, resolvedPath } from '../../../../src/lib/disk/mounts.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const TABLE = `\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,errors=remount-ro
40 22 0:35 / /srv rw,relatime shared:20 - nfs4 filer:/vol rw,vers=4.2,local_lock=none,addr=192.0.2.1
41 40 0:36 /inner /srv/mirrors rw,nosuid - fuse.sshfs me@filer: rw,user_id=0
42 22 0:37 / /mnt/with\\040space\\134 rw shared:3 master:1 propagate_from:2 - xfs /dev/sdb rw
43 41 0:38 / /srv/mirrors rw - tmpfs none rw,size=64k

nonsense
`;

const mountPointOf = (path: string): string | undefined => mountOf(parseMounts(TABLE), path)?.mountPoint;

describe('a table of mounts', () => {
  it('is read with optional fields, escaped names and the options of both kinds', () => {
    const mounts = parseMounts(TABLE);
    expect(mounts.map(({ mountPoint, fileSystem }) => [mountPoint, fileSystem])).toEqual([
      ['/', 'ext4'],
      ['/srv', 'nfs4'],
      ['/srv/mirrors', 'fuse.sshfs'],
      ['/mnt/with space\\', 'xfs'],
      ['/srv/mirrors', 'tmpfs'],
    ]);
    for (const option of ['relatime', 'vers=4.2', 'local_lock=none'])
      expect(mounts[1]?.options).toContain(option);
  });

  it('names the nearest mount around a path', () => {
    expect(mountPointOf('/')).toBe('/');
    expect(mountPointOf('/srvs')).toBe('/');
    expect(mountPointOf('/srv')).toBe('/srv');
    expect(mountPointOf('/srv/mirror')).toBe('/srv');
    expect(mountPointOf('/mnt/with space\\/x')).toBe('/mnt/with space\\');
    expect(mountOf([], '/srv')).toBeNull();
  });

  it('names the last of several mounts at one place, which covers the others', () => {
    expect(mountOf(parseMounts(TABLE), '/srv/mirrors/a')?.fileSystem).toBe('tmpfs');
  });
});

describe('a folder', () => {
  it('is found behind links, and before it exists', async () => {
    const root = realpathSync(await temporaryFolder());
    mkdirSync(join(root, 'real'));
    symlinkSync('real', join(root, 'link'));
    expect(await resolvedPath(join(root, 'link/a/b'))).toBe(join(root, 'real/a/b'));
    expect(await resolvedPath(root)).toBe(root);
  });

  it.runIf(process.platform === 'linux')('belongs to a mount', async () => {
    expect((await findMount('/proc/self'))?.fileSystem).toBe('proc');
    const found = await findMount(join(await temporaryFolder(), 'not/yet'));
    expect(found?.mountPoint).toMatch(/^\//);
  });
});
