import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, it } from 'vitest';

import { MAIN } from '../support/built.ts';
import { startFake } from '../support/started-fake.ts';
import { asRoot, shellBlocks } from '../support/manual-commands.ts';
import { cleanEnvironment, hasProgram, run, startDaemon, variablesOf } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const execute = promisify(execFile);

/** A service, and two machines with the program: a folder for the `/var/lib/workbook-mirror` of each. */
async function surroundings() {
  const service = await startFake();
  service.addRepository('Accounting', { 'a.xlsx': 'a1', 'b.xlsx': 'b1' });
  const folder = await temporaryFolder();
  const bin = join(folder, 'bin');
  await mkdir(bin);
  for (const [name, script] of [
    ['workbook-mirror', `exec ${process.execPath} ${MAIN} "$@"`],
    ['systemctl', 'exit 0'],
  ] as const)
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const settingsOf = (machine: string) => variablesOf(service.settingsFor(join(folder, machine)));
  const type = async (commands: string): Promise<void> => {
    const moved = asRoot(commands)
      .replaceAll('new:/var/lib/workbook-mirror', join(folder, 'new'))
      .replaceAll('/var/lib/workbook-mirror', join(folder, 'old'));
    const env = { ...cleanEnvironment(settingsOf('old')), PATH: `${bin}:${process.env['PATH'] ?? ''}` };
    await execute('sh', ['-ec', moved], { env });
  };
  return { service, settingsOf, type };
}

const hasRsync = hasProgram('rsync');

it.skipIf(!hasRsync)(
  `a mirror that moves to another machine as the manual says pulls nothing there${hasRsync ? '' : ' (skipped: no rsync)'}`,
  async () => {
    const { service, settingsOf, type } = await surroundings();
    const [first = '', second = ''] = shellBlocks('move', 'To another machine');
    const daemon = await startDaemon(settingsOf('old'));
    await type(first);
    const accounting = service.named();
    service.write(accounting, 'main', 'a.xlsx', 'a2');
    expect(await run(['poll', '--wait'], settingsOf('old'))).toMatchObject({ exitCode: 0 });
    await daemon.stop();
    await type(second);
    service.takeDownloads();
    expect(await run(['sync'], settingsOf('new'))).toMatchObject({ exitCode: 0 });
    expect(service.takeDownloads()).toEqual([]);
    expect(await run(['verify'], settingsOf('new'))).toMatchObject({ exitCode: 0 });
    const left = await run(['history', 'list', '--json'], settingsOf('new'));
    expect(JSON.parse(left.stdout)).toMatchObject([{ target: 'Accounting/main', kind: 'replaced' }]);
  },
);
