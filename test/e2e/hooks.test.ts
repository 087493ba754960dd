import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A script that is run as a program. */
async function programOf(body: string): Promise<{ path: string; folder: string }> {
  const folder = await temporaryFolder();
  const path = join(folder, 'hook');
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return { path, folder };
}

/** A receiver of requests. */
async function startReceiver(): Promise<{ origin: string; requests: { path: string; body: string }[] }> {
  const requests: { path: string; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      requests.push({ path: `${request.method} ${request.url}`, body });
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

it('sync runs the command for every change, in the tree, without any of the settings, and not again', async () => {
  const embedded = await startEmbedded();
  const { path, folder } = await programOf(
    `{ echo "$MIRROR_EVENT $MIRROR_TARGET $MIRROR_CHANGES $(wc -l)"; env; } >> "$(dirname "$0")/ran"`,
  );
  const settings = { ...embedded.settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: path };
  const first = await run(['sync'], settings);
  expect(first.exitCode).toBe(0);
  const ran = await readFile(join(folder, 'ran'), 'utf8');
  expect(ran.match(/^published .* known [1-9]/gm)).toHaveLength(6);
  expect(ran).not.toContain('WORKBOOK_MIRROR_');
  expect(ran).not.toContain(embedded.settings['WORKBOOK_MIRROR_SERVICE_API_KEY']);
  expect((await run(['sync'], settings)).exitCode).toBe(0);
  expect(await readFile(join(folder, 'ran'), 'utf8')).toBe(ran);
  const edit = await embedded.writer.edit();
  expect((await run(['sync'], settings)).exitCode).toBe(0);
  const more = (await readFile(join(folder, 'ran'), 'utf8')).slice(ran.length);
  expect(more).toMatch(/^published .* known 1\n/);
  expect(more).toContain(`MIRROR_BRANCH=${edit.branch}\n`);
});

it('sync ends with 1 when the command failed, and runs it again the next time', async () => {
  const embedded = await startEmbedded();
  const { path, folder } = await programOf(
    'test -e "$(dirname "$0")/works" && exit 0; echo "no room there" >&2; exit 4',
  );
  const settings = { ...embedded.settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: path };
  const first = await run(['sync'], settings);
  expect(first.exitCode).toBe(1);
  expect(first.stderr).toContain('It ended with exit code 4: no room there');
  expect(first.stderr.trim().split('\n').at(-1)).toMatch(
    /^! hooks\.afterPublish did not succeed for \d+ targets/,
  );
  expect((await run(['status'], settings)).stdout).toContain('hooks.afterPublish has not succeeded yet for');
  expect(await embedded.differences()).toEqual([]);
  await writeFile(join(folder, 'works'), '');
  expect((await run(['sync'], settings)).exitCode).toBe(0);
  expect((await run(['status'], settings)).stdout).not.toContain('hooks.afterPublish');
});

it('config check refuses a command that cannot be run, as the daemon does', async () => {
  const { settings } = await startEmbedded();
  const { path } = await programOf('exit 0');
  await chmod(path, 0o644);
  const checked = await run(['config', 'check'], { ...settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: path });
  expect(checked).toMatchObject({ exitCode: 2, stdout: '' });
  expect(checked.stderr).toContain('hooks.afterPublish: ');
});

it('config check counts a secret in a file once', async () => {
  const { settings } = await startEmbedded();
  const path = join(await temporaryFolder(), 'key');
  await writeFile(path, 'a-key');
  const { WORKBOOK_MIRROR_SERVICE_API_KEY: _key, ...others } = settings;
  const given = async (by: Readonly<Record<string, string>>): Promise<string | undefined> =>
    /\d+ settings given/.exec((await run(['config', 'check'], by)).stdout)?.[0];
  const inFile = await given({ ...others, WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: path });
  expect(inFile).toBeDefined();
  expect(inFile).toBe(await given(settings));
});

it('tells a webhook and gives a sign of life, and shows neither address', async () => {
  const embedded = await startEmbedded();
  const { origin, requests } = await startReceiver();
  const settings = {
    ...embedded.settings,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/secret-hook`,
    WORKBOOK_MIRROR_HOOKS_HEARTBEAT: `${origin}/secret-heart`,
  };
  const first = await run(['sync'], settings);
  expect(first.exitCode).toBe(0);
  const told = requests.filter(({ path }) => path === 'POST /secret-hook');
  expect(told.map(({ body }) => JSON.parse(body) as object)).toContainEqual(
    expect.objectContaining({ type: 'target.published', target: 'Accounting/main' }),
  );
  expect(requests.filter(({ path }) => path === 'GET /secret-heart')).toHaveLength(1);

  requests.length = 0;
  await embedded.service.close();
  const failed = { ...settings };
  for (let times = 0; times < 2; times += 1) expect((await run(['sync'], failed)).exitCode).toBe(3);
  expect(requests.map(({ path }) => path)).toEqual(['POST /secret-hook']);
  expect(JSON.parse(requests[0]?.body ?? '')).toMatchObject({
    type: 'pass.failed',
    code: 'service.unreachable',
  });
  const shown = await run(['config', 'show'], settings);
  for (const { stdout, stderr } of [first, shown]) expect(stdout + stderr).not.toContain('secret-h');
});
