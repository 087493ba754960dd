import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { type Embedded, startEmbedded } from '../support/embedded.ts';
import { start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const NEVER = 'schedule: "0 0 1 1 *"';

/** A daemon with a settings file. */
async function startWithFile(embedded: Embedded, text: string) {
  const file = join(await temporaryFolder(), 'config.yaml');
  // As careful programs do it: a reader sees the old or the new text.
  const write = async (next: string): Promise<void> => {
    await writeFile(`${file}.new`, next);
    await rename(`${file}.new`, file);
  };
  await write(text);
  const daemon = start(['run', '--config', file], embedded.settings);
  await daemon.prints(/"pass\.finished"/);
  return { daemon, write };
}

describe('settings that change while the daemon runs', () => {
  it('apply immediately: the schedule, the log level, the selection', async () => {
    const { daemon, write } = await startWithFile(await startEmbedded(), NEVER);
    expect(daemon.stdout()).not.toContain('pass.started');
    await write(`schedule: "* * * * * *"\nlog:\n  level: debug\nrepositories:\n  include: [nothing]\n`);
    await daemon.prints(/"settings\.reloaded".*schedule, log\.level|"settings\.reloaded".*"log\.level"/);
    await daemon.prints(/"pass\.started","trigger":"schedule"/);
    // This looks like an error: the mirror stays as it was until an approval.
    await daemon.prints(/"selection\.unmatched","setting":"repositories\.include","pattern":"nothing"/);
    await daemon.prints(/"deletion\.held".*"subject":"deselected"/);
    expect(daemon.stdout()).not.toMatch(/"pull":0,"keep":0,"hold":0/);
    await write(
      `schedule: "* * * * * *"\nlog:\n  level: debug\nrepositories:\n  include: [nothing]\nguard:\n  targets: off\n`,
    );
    await daemon.prints(/"pull":0,"keep":0,"hold":0/);
    await daemon.prints(/"selection\.empty"/);
  });

  it('are refused as a whole if any of them is wrong, and those that need a restart wait for it', async () => {
    const { daemon, write } = await startWithFile(await startEmbedded(), NEVER);
    await write('schedule: "* * * * * *"\nlog:\n  level: loud\n');
    await daemon.prints(/"settings\.refused"[^\n]*loud[^\n]*\n/);
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"trigger":"signal"/);
    expect(daemon.stdout()).not.toContain('"trigger":"schedule"');
    expect(daemon.stdout().match(/"settings\.refused"/g)).toHaveLength(1);

    // Those that need a restart stay as they are, and are named.
    await write(`${NEVER}\nreaderGrace: 7m\nconcurrency: 2\n`);
    await daemon.prints(/"settings\.restart_needed","settings":\["readerGrace"\]/);
    await daemon.prints(/"settings\.reloaded","changed":\["concurrency"\]/);
    await write(NEVER);
    await daemon.prints(/"level":"info"[^\n]*"settings\.restart_unneeded"/);
  });

  it('are found where a link leads to', async () => {
    const embedded = await startEmbedded();
    const [folder, other] = [await temporaryFolder(), await temporaryFolder()];
    const put = (text: string): Promise<void> => writeFile(join(other, 'real.yaml'), text);
    await put(NEVER);
    await symlink(join(other, 'real.yaml'), join(folder, 'config.yaml'));
    const daemon = start(['run', '--config', join(folder, 'config.yaml')], embedded.settings);
    await daemon.prints(/"pass\.finished"/);
    await put(`${NEVER}\nconcurrency: 2\n`);
    await daemon.prints(/"settings\.reloaded","changed":\["concurrency"\]/);
  });

  it('are found in a folder that Kubernetes swaps by a link', async () => {
    const embedded = await startEmbedded();
    const folder = await temporaryFolder();
    const put = async (name: string, text: string): Promise<void> => {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'config.yaml'), text);
      await symlink(name, join(folder, '..data_tmp'));
      await rename(join(folder, '..data_tmp'), join(folder, '..data'));
    };
    await put('..2026_11_21', NEVER);
    await symlink('..data/config.yaml', join(folder, 'config.yaml'));
    const daemon = start(['run', '--config', join(folder, 'config.yaml')], embedded.settings);
    await daemon.prints(/"pass\.finished"/);
    await put('..2026_11_22', `${NEVER}\nconcurrency: 2\n`);
    await rm(join(folder, '..2026_11_21'), { recursive: true });
    await daemon.prints(/"settings\.reloaded","changed":\["concurrency"\]/);
  });
});
