import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';

import { expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { MAIN } from '../support/built.ts';
import { cleanEnvironment } from '../support/program.ts';
import { freePort } from '../support/stores.ts';

it('a daemon whose log cannot be written continues, and reports it elsewhere', async () => {
  const embedded = await startEmbedded();
  const port = await freePort();
  const daemon = spawn(process.execPath, [MAIN, 'run'], {
    env: cleanEnvironment({ ...embedded.settings, WORKBOOK_MIRROR_HTTP_LISTEN: `127.0.0.1:${port}` }),
    stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
  });
  onTestFinished(() => {
    daemon.kill('SIGKILL');
  });
  let stderr = '';
  daemon.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ask = async (path: string): Promise<string> =>
    fetch(`http://127.0.0.1:${port}${path}`).then(
      async (answer) => `${answer.status} ${await answer.text()}`,
      String,
    );
  await expect.poll(() => ask('/readyz'), { interval: 200 }).toMatch(/^200/);
  expect(await embedded.differences()).toEqual([]);
  expect((await ask('/metrics')).includes('\nworkbook_mirror_log_failing 1\n')).toBe(true);
  expect((await ask('/api/status')).includes('log.failed')).toBe(true);
  expect(stderr.match(/The log cannot be written/g)).toHaveLength(1);
  daemon.kill('SIGTERM');
  expect(await once(daemon, 'exit')).toEqual([0, null]);
});
