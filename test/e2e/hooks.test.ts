import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { startReceiver } from '../support/listen.ts';
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

it('sync runs the command once for every change, in the tree, without any of the settings', async () => {
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

it('config check counts a secret in a file only once', async () => {
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

it('a pass notifies a webhook and sends a heartbeat, and shows neither address', async () => {
  const embedded = await startEmbedded();
  const { origin, received } = await startReceiver();
  const settings = {
    ...embedded.settings,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/secret-hook`,
    WORKBOOK_MIRROR_HOOKS_HEARTBEAT: `${origin}/secret-heart`,
  };
  const first = await run(['sync'], settings);
  expect(first.exitCode).toBe(0);
  const told = received.filter(({ method }) => method === 'POST');
  expect(told.map(({ body }) => JSON.parse(body) as object)).toContainEqual(
    expect.objectContaining({ type: 'target.published', target: 'Accounting/main' }),
  );
  expect(received.filter(({ url }) => url === '/secret-heart')).toHaveLength(1);

  received.length = 0;
  await embedded.service.close();
  const failed = { ...settings };
  for (let times = 0; times < 2; times += 1) expect((await run(['sync'], failed)).exitCode).toBe(3);
  expect(received.map(({ method, url }) => `${method} ${url}`)).toEqual(['POST /secret-hook']);
  expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({
    type: 'pass.failed',
    code: 'service.unreachable',
  });
  const shown = await run(['config', 'show'], settings);
  for (const { stdout, stderr } of [first, shown]) expect(stdout + stderr).not.toContain('secret-h');
});
