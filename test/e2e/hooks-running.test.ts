import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** True if a process runs; a zombie does not. */
async function runs(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return /\) [^ZX]/.test(stat);
}

async function areRunning(pids: readonly number[]): Promise<number[]> {
  const states = await Promise.all(pids.map(runs));
  return pids.filter((_pid, index) => states[index]);
}

describe('programs that ignore SIGTERM', () => {
  it.each(['AFTER_PUBLISH', 'BEFORE_PUBLISH'])(
    'do not outlive the daemon, nor do their children (%s)',
    async (hook) => {
      const embedded = await startEmbedded();
      const folder = await temporaryFolder();
      const path = join(folder, 'stubborn');
      const body = `trap '' TERM\nsleep 300 &\necho "$$ $!" >> ${folder}/pids\nwhile :; do sleep 0.1; done`;
      await writeFile(path, `#!/bin/sh\n${body}\n`);
      await chmod(path, 0o755);
      const pids = async (): Promise<number[]> =>
        ((await readFile(join(folder, 'pids'), 'utf8').catch(() => '')).match(/\d+/g) ?? []).map(Number);
      onTestFinished(async () => {
        for (const pid of await areRunning(await pids())) process.kill(pid, 'SIGKILL');
      });
      const daemon = start(['run'], { ...embedded.settings, [`WORKBOOK_MIRROR_HOOKS_${hook}`]: path });
      const running = async (): Promise<number[]> => areRunning(await pids());
      await expect.poll(async () => (await running()).length).toBeGreaterThan(1);
      expect(await daemon.stop()).toMatchObject({ signal: null });
      await expect.poll(running).toStrictEqual([]);
    },
  );
});
