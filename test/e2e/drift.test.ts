import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run, start, startDaemon } from '../support/program.ts';

async function someWorkbook(directory: string): Promise<string> {
  const root = join(directory, 'mirror/Accounting/main');
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const file = entries.find((entry) => entry.isFile());
  if (file === undefined) throw new Error('no file is mirrored');
  return join(file.parentPath, file.name);
}

describe('an edit of a mirrored file', () => {
  it('is repaired immediately if the settings say so, and own publishes of the daemon do not count', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon({ ...embedded.settings, WORKBOOK_MIRROR_DRIFT: 'repair' });
    for (let edits = 0; edits < 2; edits += 1) {
      await embedded.edit();
      daemon.child.kill('SIGHUP');
      await daemon.prints(new RegExp(`(?:"trigger":"signal"[^]*){${edits + 1}}`));
    }
    const file = await someWorkbook(embedded.directory);
    await rm(file);
    await daemon.prints(/"target\.whole"/);
    expect(await embedded.differences()).toEqual([]);
    expect(daemon.stdout()).toMatch(/"trigger":"drift"/);
    expect(daemon.stdout().match(/"target\.drifted"/g)).toHaveLength(1);
    expect((await daemon.stop()).exitCode).toBe(0);
  });

  it('made without a daemon is found when one starts', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    await rm(await someWorkbook(embedded.directory));
    const daemon = start(['run'], embedded.settings);
    await daemon.prints(/"target\.drifted"/);
    await daemon.stop();
  });
});
