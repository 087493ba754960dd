import { mkdir } from 'node:fs/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { bindNativeCalls } from '../../../../../src/lib/native/file-calls.ts';
import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import {
  createTargetLocks,
  TargetBusyError,
  type TargetLocks,
} from '../../../../../src/mirror/store/shards/target-locks.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

const native = bindNativeCalls();

/** Two instances that share a directory; the first cannot give back a lock while the file server is away from it. */
async function instances() {
  const directory = await temporaryFolder();
  await mkdir(layoutOf(directory).internal);
  const server = { isAway: false };
  const unlockByte: typeof native.unlockByte = (fd, offset) => {
    // As GlusterFS says it of a file that it has not opened again since (EBADFD).
    if (server.isAway) throw Object.assign(new Error('EBADFD: fcntl failed'), { code: 'EBADFD', errno: -77 });
    native.unlockByte(fd, offset);
  };
  const open = (index: number, calls: typeof native): TargetLocks => {
    const locks = createTargetLocks(layoutOf(directory, { index }), calls, () => false);
    onTestFinished(() => locks.close());
    return locks;
  };
  return { server, one: open(1, { ...native, unlockByte }), other: open(2, native) };
}

describe('the lock of a target that cannot be given back', () => {
  it('fails nothing that was done under it, and is given back later', async () => {
    const { server, one, other } = await instances();
    const giveBack = one.take(['Sales/main', 'Accounting/main']);
    server.isAway = true;
    giveBack();
    expect(() => other.take(['Sales/main'])).toThrow(TargetBusyError);
    one.settle();
    expect(() => other.take(['Sales/main'])).toThrow(TargetBusyError);
    server.isAway = false;
    one.settle();
    other.take(['Sales/main', 'Accounting/main'])();
  });

  it('is kept where it was taken again meanwhile', async () => {
    const { server, one, other } = await instances();
    const giveBack = one.take(['Sales/main']);
    server.isAway = true;
    giveBack();
    server.isAway = false;
    const giveBackAgain = one.take(['Sales/main']);
    one.settle();
    expect(() => other.take(['Sales/main'])).toThrow(TargetBusyError);
    giveBackAgain();
    other.take(['Sales/main'])();
  });
});
