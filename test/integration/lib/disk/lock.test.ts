import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';

import { describe, expect, it } from 'vitest';

import { lockDirectory } from '../../../../src/lib/disk/lock.ts';
import { bindNativeCalls } from '../../../../src/lib/native/file-calls.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const native = bindNativeCalls();

/** A lock that the file system forgets, like the locks of a machine that a server has lost. */
async function forgotten() {
  const file = join(await temporaryFolder(), 'lock');
  const lock = await lockDirectory(file, native);
  await lock.check();
  native.unlock(lock.fd);
  return { file, lock };
}

describe('the lock of a directory that was lost', () => {
  it('is taken again if no other process has had it', async () => {
    const { file, lock } = await forgotten();
    await lock.check();
    await expect(lockDirectory(file, native)).rejects.toMatchObject({ code: 'directory.locked' });
    await lock.release();
  });

  it('stays lost while another process has it, and afterwards', async () => {
    const { file, lock } = await forgotten();
    // In one process, only their times distinguish two locks.
    const forgottenAtMs = Date.now();
    while (Date.now() === forgottenAtMs) await setImmediate();
    const other = await lockDirectory(file, native);
    await expect(lock.check()).rejects.toMatchObject({ code: 'directory.taken' });
    await other.check();
    await other.release();
    await expect(lock.check()).rejects.toMatchObject({
      code: 'directory.taken',
      message: expect.stringContaining(`pid ${process.pid} on `) as string,
    });
    await lock.release();
  });

  it('cannot be checked if the file system fails', async () => {
    const failing = { ...native };
    const folder = await temporaryFolder();
    const lock = await lockDirectory(join(folder, 'lock'), failing);
    failing.tryLock = () => {
      throw Object.assign(new Error('EBADFD'), { code: 'EBADFD', syscall: 'flock' });
    };
    await expect(lock.check()).rejects.toMatchObject({ code: 'disk.failed' });
    // A failure before that is no defect either.
    await rm(join(folder, 'lock'));
    await symlink('lock', join(folder, 'lock'));
    await expect(lock.check()).rejects.toMatchObject({ code: 'disk.failed' });
    await lock.release();
  });
});
