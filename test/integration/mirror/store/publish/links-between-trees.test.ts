import { link, lstat, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { type HarnessSettings, type MirrorHarness, startPair } from '../../../../support/mirror-harness.ts';

/** A mirror of version 0.1.0 may hold one file under the names of several targets, see the manual, "On disk". */

const DAY_MS = 24 * 3_600_000;
const LARGE = Buffer.alloc(20_000, 'a workbook of which there are several. ');

/** A mirror of two branches, opened while their equal workbooks are two names of one file. */
async function linked(settings: HarnessSettings = {}): ReturnType<typeof startPair> {
  const { service, mirror } = await startPair({}, { CONTENT: 'all', ...settings });
  const repository = service.addRepository('Plan', { 'a.xlsx': String(LARGE), 'small.txt': 'small' });
  service.fork(repository, 'main', 'copy');
  await mirror.pass();
  await mirror.whileClosed(async () => {
    const [name, other] = [placeOf(mirror, 'main'), placeOf(mirror, 'copy')];
    await rm(other);
    await link(name, other);
    const manifest = join(mirror.directory, 'manifests', 'Plan', 'copy.json');
    const text = await readFile(manifest, 'utf8');
    await writeFile(manifest, text.replace('"size": 20000', '"shared": true,\n   "size": 20000'));
  });
  return { service, mirror };
}

function placeOf(mirror: MirrorHarness, branch: string): string {
  return join(mirror.directory, 'mirror', 'Plan', branch, 'a.xlsx');
}

async function inodeOf(mirror: MirrorHarness, branch: string): Promise<number> {
  return (await lstat(placeOf(mirror, branch))).ino;
}

describe('a file with names in two trees', () => {
  it('is taken over unchanged', async () => {
    const { service, mirror } = await linked();
    const stamps = await mirror.stamps();
    for (const aheadMs of [0, 2 * DAY_MS]) {
      const { summary } = await mirror.pass({ aheadMs });
      expect(summary).toMatchObject({ changed: 0, failed: 0 });
    }
    expect(await mirror.stamps()).toStrictEqual(stamps);
    await mirror.expectExact(service.expectedTrees());
  });

  it.each(['auto', 'exchange', 'rename', 'link'])(
    'stays as it is in one tree when it changes in the other, with publish: %s',
    async (publish) => {
      const { service, mirror } = await linked({ PUBLISH: publish });
      const inode = await inodeOf(mirror, 'main');
      service.write(service.named(), 'copy', 'a.xlsx', `${String(LARGE)} changed`);
      await mirror.exactPass();
      expect(await inodeOf(mirror, 'main')).toBe(inode);
      expect(await inodeOf(mirror, 'copy')).not.toBe(inode);
    },
  );
});
