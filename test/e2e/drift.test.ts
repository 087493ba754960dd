import { appendFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run, start } from '../support/program.ts';

const NEVER = { WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *' };

async function someWorkbook(directory: string): Promise<string> {
  const root = join(directory, 'mirror/Accounting/main');
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const file = entries.find((entry) => entry.isFile());
  if (file === undefined) throw new Error('no file is mirrored');
  return join(file.parentPath, file.name);
}

describe('an edit of a mirrored file', () => {
  it('is reported while the daemon runs, shows in status, and is repaired by verify --repair', async () => {
    const embedded = await startEmbedded();
    const daemon = start(['run'], { ...embedded.settings, ...NEVER });
    await daemon.prints(/"pass\.finished"/);
    const file = await someWorkbook(embedded.directory);
    await appendFile(file, 'an edit');
    await daemon.prints(/"target\.drifted"/);
    const line = /.*"target\.drifted".*/.exec(daemon.stdout())?.[0] ?? '{}';
    expect(JSON.parse(line)).toMatchObject({ target: 'Accounting/main', modified: 1, added: 0, missing: 0 });
    const status = await run(['status'], embedded.settings);
    expect(status.exitCode).toBe(1);
    expect(status.stdout).toMatch(
      /needs you .*Accounting\/main\n {2}drifted; someone changed it: 1 modified/,
    );
    const verified = await run(['verify'], embedded.settings);
    expect(verified.exitCode).toBe(1);
    expect(verified.stdout).toContain('verify --repair');
    const repaired = await run(['verify', '--repair'], embedded.settings);
    expect(repaired.exitCode).toBe(0);
    expect(await embedded.differences()).toEqual([]);
    expect((await run(['verify'], embedded.settings)).exitCode).toBe(0);
    expect((await run(['status'], embedded.settings)).exitCode).toBe(0);
  });

  it('is repaired immediately if the settings say so, and own publishes of the daemon do not count', async () => {
    const embedded = await startEmbedded();
    const daemon = start(['run'], { ...embedded.settings, ...NEVER, WORKBOOK_MIRROR_DRIFT: 'repair' });
    await daemon.prints(/"pass\.finished"/);
    for (let edits = 0; edits < 5; edits += 1) {
      await embedded.writer.edit();
      daemon.child.kill('SIGHUP');
      await daemon.prints(new RegExp(`(?:"trigger":"signal"[^]*){${edits + 1}}`));
    }
    const file = await someWorkbook(embedded.directory);
    await rm(file);
    await daemon.prints(/"target\.whole"/);
    expect(await embedded.differences()).toEqual([]);
    expect(daemon.stdout()).toMatch(/"trigger":"drift"/);
    expect(daemon.stdout().match(/"target\.drifted"/g)).toHaveLength(1);
    daemon.child.kill('SIGTERM');
    expect((await daemon.ended).exitCode).toBe(0);
  });

  it('made without a daemon is found when one starts', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    await rm(await someWorkbook(embedded.directory));
    const daemon = start(['run'], { ...embedded.settings, ...NEVER });
    await daemon.prints(/"target\.drifted"/);
    daemon.child.kill('SIGTERM');
    await daemon.ended;
  });
});
