import { execFile } from 'node:child_process';
import { chmod, chown, cp, lstat, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { expect, it } from 'vitest';
import { z } from 'zod';

import { MAIN } from '../support/built.ts';
import { startEmbedded } from '../support/embedded.ts';
import { cleanEnvironment, run, start, startDaemon } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A user who owns nothing else here. */
const DAEMON = 65_533;

async function giveTo(owner: number, folder: string): Promise<void> {
  await chown(folder, owner, owner);
  for (const name of await readdir(folder, { recursive: true }))
    await chown(join(folder, name), owner, owner);
}

const statusSchema = z.object({ targets: z.array(z.object({ target: z.string() })) });

/** The owners of files below a folder, except a given one. */
async function notOf(owner: number, folder: string): Promise<string[]> {
  const foreign: string[] = [];
  for (const name of await readdir(folder, { recursive: true })) {
    if ((await lstat(join(folder, name))).uid !== owner) foreign.push(name);
  }
  return foreign;
}

it.runIf(process.getuid?.() === 0)(
  'root works in the directory of another user, who may not read the secrets, until the command has ended',
  async () => {
    const { settings, directory } = await startEmbedded();
    const { WORKBOOK_MIRROR_SERVICE_API_KEY: key, ...others } = settings;
    const keyFile = join(directory, '../key');
    await writeFile(keyFile, key, { mode: 0o600 });
    await chmod(join(directory, '..'), 0o711);
    await mkdir(directory);
    await giveTo(DAEMON, directory);
    const withFile = { ...others, WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: keyFile };
    expect(await run(['sync', '--quiet'], withFile)).toMatchObject({ exitCode: 0, stderr: '' });
    expect((await run(['poll'], withFile)).exitCode).toBe(0);
    expect((await run(['plan'], withFile)).exitCode).toBe(0);
    await run(['sync', '--quiet', '--branches-exclude', '*'], withFile);
    const approved = await run(['approve', '--all', '--yes', '--branches-exclude', '*'], withFile);
    expect(approved.exitCode).toBe(0);
    expect(approved.stdout).toContain('Approved:');
  },
);

it.runIf(process.getuid?.() === 0)(
  'root, in the directory of another user, leaves only files that the owner may replace, and follows no links of the owner',
  async () => {
    const { settings, directory } = await startEmbedded();
    expect((await run(['sync'], settings)).exitCode).toBe(0);
    const status = statusSchema.parse(JSON.parse((await run(['status', '--json'], settings)).stdout));
    const [{ target } = { target: '' }] = status.targets;
    const kept = join(directory, 'history', target, '20260101T000000.000Z');
    await mkdir(join(kept, '..'), { recursive: true });
    await rename(join(directory, 'mirror', target), kept);
    await rename(join(directory, 'manifests', `${target}.json`), `${kept}.json`);
    await giveTo(DAEMON, directory);
    const denied = await run(['history', 'restore', target], settings);
    expect(denied).toMatchObject({ exitCode: 2 });
    expect(denied.stderr).toContain('who cannot get there');
    await chmod(join(directory, '..'), 0o711);
    const restored = await run(['history', 'restore', target], settings);
    expect(restored).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await notOf(DAEMON, directory)).toEqual([]);
    // Nothing is held; the same files are read in the same way.
    expect((await run(['approve', '--all'], settings)).exitCode).toBe(0);
    await writeFile(join(directory, '.workbook-mirror/note'), 'x');
    expect(await notOf(DAEMON, directory)).toEqual(['.workbook-mirror/note']);
  },
);

it.runIf(process.getuid?.() === 0)('a user works where a daemon of another user crashed', async () => {
  const { settings, directory } = await startEmbedded();
  await chmod(join(directory, '..'), 0o711);
  const daemon = await startDaemon(settings);
  daemon.child.kill('SIGKILL');
  await daemon.ended;
  await giveTo(DAEMON, directory);
  await chown(join(directory, '.workbook-mirror/control.sock'), 0, 0);
  const asOwner = { uid: DAEMON, gid: DAEMON, env: cleanEnvironment(settings) };
  const polled = await promisify(execFile)(process.execPath, [MAIN, 'poll'], asOwner);
  expect(polled.stderr).toContain('nothing to pull');
});

it.runIf(process.getuid?.() === 0)(
  'hooks that root runs in the directory of another user have the rights of that user only',
  async () => {
    const { settings, directory } = await startEmbedded();
    await mkdir(directory);
    await chmod(join(directory, '..'), 0o711);
    const hook = join(directory, '../hook');
    await writeFile(hook, `#!/bin/sh\nid -u > ${directory}/user; id -g >> ${directory}/user\n`, {
      mode: 0o755,
    });
    await giveTo(DAEMON, directory);
    const withHook = { ...settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: hook };
    expect(await run(['sync', '--quiet'], withHook)).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await readFile(join(directory, 'user'), 'utf8')).toBe(`${DAEMON}\n${DAEMON}\n`);
    expect(await notOf(DAEMON, directory)).toEqual([]);
  },
);

it.runIf(process.getuid?.() === 0)(
  'root refuses to work in the directory of another user, who cannot read the program',
  async () => {
    const program = await temporaryFolder();
    await cp(dirname(MAIN), join(program, 'dist'), { recursive: true });
    await cp(join(dirname(MAIN), '../package.json'), join(program, 'package.json'));
    await chmod(program, 0o700);
    const directory = await temporaryFolder();
    await chmod(directory, 0o711);
    await chown(directory, DAEMON, DAEMON);
    const args = ['history', 'prune', '--older-than', '1d', '--directory', directory];
    const { exitCode, stderr } = await start(args, {}, '/', join(program, 'dist/main.js')).ended;
    expect(stderr).toContain(`who cannot read the program in ${program}`);
    expect(exitCode).toBe(2);
  },
);
