import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { startFake } from './started-fake.ts';
import { MAIN } from './built.ts';
import { cleanEnvironment, variablesOf } from './program.ts';
import { temporaryFolder } from './temporary.ts';

/** Mounts of a shell in a name space of its own go with it. */
const IN_NAMESPACE = ['--mount', '--propagation', 'private'];
/** Whether this machine lets the tests mount file systems. */
export const canMount =
  spawnSync('unshare', [...IN_NAMESPACE, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

/** A service with three repositories, and a folder `$D` with the directory `$D/m`. @param files more files of repository A */
export async function startService(files: Readonly<Record<string, string>> = {}) {
  const service = await startFake();
  const many = Array.from({ length: 12 }, (_, index) => [`folder ${index}/book.xlsx`, 'x'.repeat(9000)]);
  for (const name of ['A', 'B', 'C'])
    service.addRepository(name, { ...Object.fromEntries(many), ...(name === 'A' ? files : {}) });
  const folder = await temporaryFolder();
  await chmod(folder, 0o755);
  await mkdir(join(folder, 'm'));
  const env = cleanEnvironment({
    ...variablesOf(service.settingsFor(join(folder, 'm'))),
    PROGRAM: `${process.execPath} ${MAIN}`,
    D: folder,
  });
  return {
    service,
    folder,
    /** Runs a shell script that may start the program as `$PROGRAM`. @returns its exit code, and the text of both streams */
    shell: async (script: string) => {
      const command = canMount ? ['unshare', ...IN_NAMESPACE, 'sh'] : ['sh'];
      const child = spawn('env', [...command, '-c', script], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let text = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (more: string) => {
          text += more;
        });
      await once(child, 'close');
      return { exitCode: child.exitCode, text };
    },
  };
}
