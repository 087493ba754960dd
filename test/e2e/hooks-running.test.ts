import { createHmac } from 'node:crypto';
import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { type Received, startReceiver } from '../support/listen.ts';
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

/** Whether a delivery is signed with a key, given in base64 (Standard Webhooks specification, "Signature scheme"). */
function isSignedWith(key: string, { headers, body }: Received): boolean {
  const text = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  const digest = createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64');
  return headers['webhook-signature'] === `v1,${digest}`;
}

it('nothing is sent while the file of the signing key is empty, and waiting messages are sent with the next key', async () => {
  const embedded = await startEmbedded();
  const { origin, received: deliveries } = await startReceiver();
  const file = join(await temporaryFolder(), 'key');
  const write = async (key: string): Promise<void> => {
    await writeFile(`${file}.new`, key);
    await rename(`${file}.new`, file);
  };
  const [before, after] = [Buffer.alloc(32, 1).toString('base64'), Buffer.alloc(32, 2).toString('base64')];
  await write(before);
  const daemon = start(['run'], {
    ...embedded.settings,
    WORKBOOK_MIRROR_SCHEDULE: '* * * * * *',
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/`,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK_SECRET_FILE: file,
  });
  const signedWith = (key: string): number => deliveries.filter((each) => isSignedWith(key, each)).length;
  await expect.poll(() => signedWith(before)).toBe(6);

  await write('garbage');
  await embedded.edit();
  await daemon.prints(/"notification\.failed"[^\n]*hooks\.webhookSecret[^\n]*\n/);
  expect(deliveries).toHaveLength(6);
  expect(daemon.stdout()).not.toContain('garbage');

  await write(after);
  await expect.poll(() => signedWith(after)).toBeGreaterThan(0);
  expect(signedWith(before) + signedWith(after)).toBe(deliveries.length);
});
