import { spawnSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';

import { canMount, startService } from '../support/mounts.ts';

/** File systems in user space, in an image of 16 MB: the kernel of this machine need not know them. */
const MAKE: Readonly<Record<string, { readonly make: string; readonly mount: string }>> = {
  exfat: { make: 'mkfs.exfat', mount: 'mount.exfat-fuse' },
  ntfs: { make: 'mkntfs -qF', mount: 'mount.ntfs-3g -o windows_names' },
  'ntfs without case': { make: 'mkntfs -qF', mount: 'mount.lowntfs-3g -o ignore_case' },
};

function has(name: string): boolean {
  const { make, mount } = MAKE[name] ?? { make: '', mount: '' };
  const programs = [make, mount].map((command) => command.split(' ')[0]);
  return (
    canMount &&
    spawnSync('sh', ['-c', [...programs, 'losetup'].map((each) => `command -v ${each}`).join(' && ')])
      .status === 0
  );
}

/** A script that mounts a file system at `$D/m` and frees the loop device when the shell ends. */
function mounting(name: string): string {
  const { make, mount } = MAKE[name] ?? { make: '', mount: '' };
  return `truncate -s 16M $D/image; ${make} $D/image >/dev/null 2>&1; L=$(losetup -f --show $D/image)
    trap 'cd /; umount $D/m; losetup -d $L' EXIT; ${mount} $L $D/m >/dev/null 2>&1`;
}

describe.runIf(has('exfat'))('exFAT, which has neither links nor milliseconds', () => {
  it('is mirrored to, file by file, and every file keeps the time that its manifest says', async () => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(`${mounting('exfat')}
      $PROGRAM sync && $PROGRAM verify && $PROGRAM sync && $PROGRAM status`);
    expect(text).toMatch(/has no hard links/);
    expect(text).toMatch(/keeps times in steps of 1s/);
    expect(text).toMatch(/all as published/);
    expect(exitCode).toBe(0);
  });

  it('is refused with publish: link, which the program does not advise there', async () => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(`${mounting('exfat')}
      $PROGRAM sync; $PROGRAM sync --publish link`);
    expect(text).toMatch(/cannot swap directories/);
    expect(text).not.toMatch(/with publish: link/);
    expect(text).toMatch(/has no symbolic links, which publish: link needs.\n {2}Set publish to auto/);
    expect(exitCode).toBe(2);
  });
});

const hasBtrfs =
  canMount &&
  spawnSync('sh', ['-c', 'command -v mkfs.btrfs && grep -qw btrfs /proc/filesystems']).status === 0;

describe.runIf(hasBtrfs)('btrfs', () => {
  const btrfs = `truncate -s 200M $D/image; mkfs.btrfs -q $D/image >/dev/null 2>&1; mount -o loop $D/image $D/m || exit 99
    trap 'cd /; umount $D/m' EXIT`;

  it('reports an exhausted quota', async () => {
    const { shell } = await startService();
    const { exitCode, text } =
      await shell(`${btrfs}; btrfs quota enable $D/m; btrfs subvolume create $D/m/d >/dev/null
      $PROGRAM sync -q --directory $D/m/d; btrfs qgroup limit 32k $D/m/d; rm -r $D/m/d/mirror/A
      $PROGRAM sync --directory $D/m/d`);
    expect(text).toContain('the quota is used up (EDQUOT)');
    expect(exitCode).toBeGreaterThan(0);
  });

  it('with a subvolume below the directory is refused by name', async () => {
    const { shell } = await startService();
    const { exitCode, text } =
      await shell(`${btrfs}; mkdir $D/m/d; btrfs subvolume create $D/m/d/mirror >/dev/null
      $PROGRAM sync --adopt --directory $D/m/d`);
    expect(text).toMatch(/\/m\/d\/mirror is a file system or subvolume of its own/);
    expect(exitCode).toBe(2);
  });
});

describe.runIf(has('ntfs'))('NTFS that takes only names of Windows', () => {
  it('quarantines a target with another name, prints it, and mirrors the others', async () => {
    const { shell } = await startService({ 'plan: 2026.xlsx': 'a' });
    const { exitCode, text } = await shell(`${mounting('ntfs')}
      $PROGRAM sync`);
    expect(text).toContain('cannot store the name "plan: 2026.xlsx"');
    expect(text).toContain('B/main: published');
    expect(exitCode).toBe(1);
  });
});

describe.runIf(has('ntfs without case'))('a file system that lists all names in lower case', () => {
  it('is refused: every file would look lost', async () => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(`${mounting('ntfs without case')}
      $PROGRAM sync`);
    expect(text).toMatch(/lists names in another case or Unicode form/);
    expect(exitCode).toBe(2);
  });
});
