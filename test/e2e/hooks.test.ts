import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { runWith } from '../support/in-process.ts';
import { startReceiver } from '../support/listen.ts';
import { start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A script that is run as a program. */
async function programOf(body: string): Promise<{ path: string; folder: string }> {
  const folder = await temporaryFolder();
  const path = join(folder, 'hook');
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return { path, folder };
}

it('sync ends with 1 when the command failed, and runs it again the next time', async () => {
  const embedded = await startEmbedded();
  const { path, folder } = await programOf(
    'test -e "$(dirname "$0")/works" && exit 0; echo "no room there" >&2; exit 4',
  );
  const settings = { ...embedded.settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: path };
  const first = await runWith(['sync'], settings);
  expect(first.exitCode).toBe(1);
  expect(first.stderr).toContain('It ended with exit code 4: no room there');
  expect(first.stderr.trim().split('\n').at(-1)).toMatch(
    /^! hooks\.afterPublish did not succeed for \d+ targets/,
  );
  expect((await runWith(['status'], settings)).stdout).toContain(
    'hooks.afterPublish has not yet succeeded for',
  );
  expect(await embedded.differences()).toEqual([]);
  await writeFile(join(folder, 'works'), '');
  expect((await runWith(['sync'], settings)).exitCode).toBe(0);
  expect((await runWith(['status'], settings)).stdout).not.toContain('hooks.afterPublish');
});

it('a pass notifies a webhook and sends a heartbeat, and shows neither address', async () => {
  const embedded = await startEmbedded();
  const { origin, received } = await startReceiver();
  const settings = {
    ...embedded.settings,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/secret-hook`,
    WORKBOOK_MIRROR_HOOKS_HEARTBEAT: `${origin}/secret-heart`,
  };
  const first = await runWith(['sync'], settings);
  expect(first.exitCode).toBe(0);
  const told = received.flatMap(({ method, body }) =>
    method === 'POST' ? [JSON.parse(body) as object] : [],
  );
  const published = { type: 'target.published', target: 'Accounting/main' };
  expect(told).toContainEqual(expect.objectContaining(published));
  expect(received.filter(({ url }) => url === '/secret-heart')).toHaveLength(1);

  received.length = 0;
  await embedded.service.close();
  for (let times = 0; times < 2; times += 1) expect((await runWith(['sync'], settings)).exitCode).toBe(3);
  expect(received.map(({ method, url }) => `${method} ${url}`)).toEqual(['POST /secret-hook']);
  const failed = { type: 'pass.failed', code: 'service.unreachable' };
  expect(JSON.parse(received[0]?.body ?? '')).toMatchObject(failed);
  const shown = await runWith(['config', 'show'], settings);
  for (const { stdout, stderr } of [first, shown]) expect(stdout + stderr).not.toContain('secret-h');
});

it('hooks test runs a command for a target, as a test, shows its output, and remembers nothing', async () => {
  const embedded = await startEmbedded();
  expect((await runWith(['sync'], embedded.settings)).exitCode).toBe(0);
  const { path } = await programOf(
    'echo "$MIRROR_TEST $MIRROR_HOOK $MIRROR_EVENT $MIRROR_BRANCH $(wc -l)"; pwd; echo oops >&2; exit ${MIRROR_STAGE:+7}',
  );
  const settings = {
    ...embedded.settings,
    WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: path,
    WORKBOOK_MIRROR_HOOKS_BEFORE_PUBLISH: path,
  };
  const after = await runWith(['hooks', 'test', 'after-publish', 'Accounting/main'], settings);
  expect(after.exitCode).toBe(0);
  expect(after.stdout).toMatch(/1 afterPublish published main [1-9]/);
  expect(after.stdout).toContain('mirror/Accounting/main\n');
  expect(after.stdout).toContain('oops');
  const gate = await runWith(['hooks', 'test', 'before-publish', 'Accounting/main', '--json'], settings);
  expect(gate.exitCode).toBe(1);
  expect(JSON.parse(gate.stdout)).toMatchObject({
    status: 7,
    errorOutput: 'oops',
    failure: { code: 'hook.failed' },
  });
  const due = /hooks\.afterPublish has not yet succeeded for 6 targets/;
  expect((await runWith(['status'], settings)).stdout).toMatch(due);
  for (const asked of ['Accounting/nothing', '../Accounting']) {
    const refused = await runWith(['hooks', 'test', 'after-publish', asked], settings);
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
  }
});

it('hooks test sends one notification that is marked as a test, in the form of its receiver, and shows no secret', async () => {
  const { origin, received } = await startReceiver((count, response) => {
    if (count < 3) return 204;
    response.writeHead(403).end('no access by secret-heart');
    return null;
  });
  const settings = {
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/secret-hook`,
    WORKBOOK_MIRROR_HOOKS_HEARTBEAT: `${origin}/secret-heart`,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK_SECRET: Buffer.alloc(24, 7).toString('base64'),
  };
  const test = (form: string, hook = 'webhook') =>
    runWith(['hooks', 'test', hook], { ...settings, WORKBOOK_MIRROR_HOOKS_WEBHOOK_FORMAT: form });
  for (const form of ['json', 'slack'] as const) {
    const { exitCode, stdout } = await test(form);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('Status 204');
    const request = received.at(-1);
    expect(stdout).not.toContain('secret-h');
    expect(stdout).not.toContain(String(request?.headers['webhook-signature']));
    expect(stdout).toContain('This is a test');
    if (form === 'json') expect(JSON.parse(request?.body ?? '')).toMatchObject({ type: 'test' });
    else expect(request?.body).toContain('This is a test: nothing has happened.');
  }
  const failed = await test('json', 'heartbeat');
  expect(failed).toMatchObject({ exitCode: 1 });
  expect(failed.stdout).toContain('Status 403');
  expect(failed.stdout).not.toContain('secret-h');
  expect(received).toHaveLength(3);
  expect(received.at(-1)).toMatchObject({
    method: 'GET',
    headers: { 'user-agent': 'workbook-mirror (test)' },
  });
  expect(await runWith(['hooks', 'test', 'webhook', 'Accounting/main'], settings)).toMatchObject({
    exitCode: 2,
  });
  expect(await runWith(['hooks', 'test', 'webhook'], {})).toMatchObject({ exitCode: 2 });
});

it.each(['AFTER_PUBLISH', 'BEFORE_PUBLISH'])(
  'programs that ignore SIGTERM do not outlive the daemon, nor do their children (%s)',
  async (hook) => {
    const embedded = await startEmbedded();
    const { path, folder } = await programOf(
      `trap '' TERM\nsleep 300 &\necho "$$ $!" >> "$(dirname "$0")/pids"\nwhile :; do sleep 0.1; done`,
    );
    const running = async (): Promise<number[]> => {
      const text = await readFile(join(folder, 'pids'), 'utf8').catch(() => '');
      const pids = (text.match(/\d+/g) ?? []).map(Number);
      const states = pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));
      const found = await Promise.all(states);
      // A zombie does not run.
      return pids.filter((_pid, index) => /\) [^ZX]/.test(found[index] ?? ''));
    };
    onTestFinished(async () => {
      for (const pid of await running()) process.kill(pid, 'SIGKILL');
    });
    const daemon = start(['run'], { ...embedded.settings, [`WORKBOOK_MIRROR_HOOKS_${hook}`]: path });
    await expect.poll(async () => (await running()).length).toBeGreaterThan(1);
    expect(await daemon.stop()).toMatchObject({ signal: null });
    await expect.poll(running).toStrictEqual([]);
  },
);
