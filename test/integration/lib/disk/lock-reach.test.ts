import { spawnSync } from 'node:child_process';
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { loadSettings } from '../../../../src/config/load.ts';
import { openOrStandBy } from '../../../../src/daemon/standby.ts';
import { createNotifier } from '../../../../src/daemon/supervision/notify.ts';
import { lockDirectory } from '../../../../src/lib/disk/lock.ts';
import { locksIn } from '../../../../src/lib/disk/lock-reach.ts';
import { bindNativeCalls } from '../../../../src/lib/native/file-calls.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { usable } from '../../../../src/mirror/store/directory.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** Mounts a folder at another place by bindfs, which keeps locks to each mount; in the table of mounts it looks like sshfs. */
function mountAgain(folder: string, place: string): boolean {
  const mounted = spawnSync('bindfs', ['-o', 'subtype=sshfs', folder, place]).status === 0;
  onTestFinished(() => {
    if (mounted && spawnSync('umount', ['--lazy', place]).status !== 0)
      spawnSync('fusermount', ['-u', '-z', place]);
  });
  return mounted;
}

it('a file system in user space that does not say where its locks hold keeps them to one mount, and is recognised by its type (needs bindfs and FUSE)', async ({
  skip,
}) => {
  const root = await temporaryFolder();
  const [folder, one, other] = ['folder', 'one', 'other'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  for (const each of [folder, one, other]) await mkdir(each);
  if (![one, other].every((place) => mountAgain(folder, place)))
    return skip('bindfs is not on this machine, or may not mount');
  expect(await locksIn(folder)).not.toMatchObject({ reach: 'not-shared' });
  expect(await locksIn(join(one, 'not/yet'))).toMatchObject({
    fileSystem: 'fuse.sshfs',
    reach: 'not-shared',
  });

  const native = bindNativeCalls();
  const locked = await lockDirectory(join(one, 'lock'), native);
  onTestFinished(locked.release);
  await expect(lockDirectory(join(one, 'lock'), native)).rejects.toMatchObject({
    code: 'directory.locked',
  });
  const elsewhere = await open(join(other, 'lock'), 'r+');
  onTestFinished(() => elsewhere.close());
  expect(native.tryLock(elsewhere.fd)).toBe(true);

  const events: MirrorEvent[] = [];
  const loadWith = (flags: Record<string, string>) =>
    loadSettings({
      flags: { directory: one, 'service.baseUrl': 'http://localhost:1/api', ...flags },
      env: { WORKBOOK_MIRROR_SERVICE_API_KEY: 'key' },
      needs: ['service', 'directory'] as const,
      defaultConfigFile: '/nonexistent/config.yaml',
    });
  const standby = {
    load: () => loadWith({}),
    notifier: createNotifier({}),
    control: { onHangUp: () => Promise.resolve() },
    stop: new AbortController().signal,
    emit: (event: MirrorEvent): void => void events.push(event),
  };
  const openWith = async (flags: Record<string, string>): Promise<string | null> =>
    openOrStandBy(standby, loadWith(flags), async () => 'opened');
  for (const [setting, value] of [
    ['standby', 'true'],
    ['shard', '1/2'],
  ] as const) {
    expect(await openWith({ [setting]: value })).toBe('opened');
    expect(events.splice(0)).toEqual([
      { name: 'locks.unshared', setting, directory: one, fileSystem: 'fuse.sshfs' },
    ]);
  }
  expect(await openWith({})).toBe('opened');
  expect(events).toEqual([]);
  return undefined;
});

it.each(['ENOLCK', 'ENOSYS', 'EOPNOTSUPP'])(
  'a file system without locks is named as the problem: %s',
  async (code) => {
    const root = await temporaryFolder();
    const native = {
      ...bindNativeCalls(),
      tryLock: () => {
        throw Object.assign(new Error(`${code}: flock failed`), { code, errno: -1, syscall: 'flock' });
      },
    };
    await expect(usable(root, () => lockDirectory(join(root, 'lock'), native))).rejects.toMatchObject({
      code: 'directory.unusable',
      hint: expect.stringContaining('takes no locks') as string,
    });
  },
);
