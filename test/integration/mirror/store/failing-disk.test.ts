import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';

import { bindNativeCalls } from '../../../../src/lib/native/file-calls.ts';
import { type DirectoryLayout, layoutOf } from '../../../../src/mirror/store/layout.ts';
import { discardStage } from '../../../../src/mirror/store/publish/journal.ts';
import { gatherStages, otherInstances, withCommonLock } from '../../../../src/mirror/store/shards.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let root = '';
let layout: DirectoryLayout;

beforeEach(async () => {
  root = await temporaryFolder();
  layout = layoutOf(root, { index: 1 });
  await mkdir(layout.internal);
});

/** Every call on the path fails, with ELOOP. */
const breakPath = (path: string): Promise<void> => symlink(path, path);

describe('a disk that fails', () => {
  it('is reported at a stage that cannot be read, and ends nothing else', async () => {
    const gate = { pass: <T>(work: () => Promise<T>): Promise<T> => work() };
    // A name that no file system takes.
    const stage = { folder: join(root, 'x'.repeat(300)), hasLinks: false };
    await expect(discardStage({ layout, inUse: new Set(), gate }, stage)).rejects.toMatchObject({
      code: expect.stringMatching(/^disk\./) as unknown,
    });
  });

  it('is reported by the search for other instances', async () => {
    await breakPath(layout.shards);
    await expect(otherInstances(layout)).rejects.toMatchObject({ code: 'disk.failed' });
  });

  it('is reported at the shared lock', async () => {
    await mkdir(join(layout.shards, '1'), { recursive: true });
    await breakPath(layout.commonLock);
    await expect(withCommonLock(layout, bindNativeCalls(), () => Promise.resolve())).rejects.toMatchObject({
      code: 'disk.failed',
    });
  });

  it('is reported by the search for the work of others', async () => {
    const other = layoutOf(root, { index: 2 });
    await mkdir(join(layout.shards, '2'), { recursive: true });
    await breakPath(other.staging);
    await expect(gatherStages(layout)).rejects.toMatchObject({ code: 'disk.failed' });
  });
});
