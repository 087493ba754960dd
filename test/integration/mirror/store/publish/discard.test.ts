import { join } from 'node:path';

import { expect, it } from 'vitest';

import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import { discardStage } from '../../../../../src/mirror/store/publish/journal.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

it('a stage that cannot be read is reported as a failed disk, and ends nothing else', async () => {
  const root = await temporaryFolder();
  const gate = {
    pass: async <T>(work: () => Promise<T>): Promise<T> => work(),
    close: () => Promise.resolve(),
  };
  const disk = { layout: layoutOf(root), inUse: new Set<string>(), gate };
  // A name that no file system takes.
  const folder = join(root, 'x'.repeat(300));
  await expect(discardStage(disk, { folder, hasLinks: false })).rejects.toMatchObject({
    code: expect.stringMatching(/^disk\./) as unknown,
  });
});
