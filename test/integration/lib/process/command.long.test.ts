import { spawnSync } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { type CommandRequest, findProgram, runCommand } from '../../../../src/lib/process/command.ts';
import { startProgram } from '../../../../src/lib/process/run.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PATH = '/usr/local/bin:/usr/bin:/bin';

/** Runs a shell script as a command. */
function shell(script: string, request: Partial<CommandRequest> = {}): ReturnType<typeof runCommand> {
  return runCommand({
    words: ['/bin/sh', '-c', script],
    cwd: '/',
    environment: { PATH },
    input: [],
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    ...request,
  });
}

it('a program that has ended gets no signal after any failure of its input: its id may belong to another by now', async () => {
  const kill = vi.spyOn(process, 'kill');
  const { promise: broken, reject } = Promise.withResolvers<never>();
  async function* input(): AsyncIterable<Uint8Array> {
    yield await broken;
  }
  const { ended, fed } = startProgram({
    program: '/bin/true',
    args: [],
    environment: { PATH },
    input: input(),
  });
  expect(await ended).toMatchObject({ exitCode: 0 });
  reject(new Error('broken off'));
  expect(await fed).toEqual(new Error('broken off'));
  expect(kill).not.toHaveBeenCalled();
});

describe('a command', () => {
  it('runs in its folder with just its environment, and reads its input', async () => {
    const folder = await temporaryFolder();
    await shell('pwd > seen; cat >> seen; env | grep -v -e ^PWD -e ^SHLVL -e ^_= | sort >> seen', {
      cwd: folder,
      environment: { PATH, MIRROR_TARGET: 'A/main' },
      input: ['one\n', 'two\n'],
    });
    expect(await readFile(join(folder, 'seen'), 'utf8')).toBe(
      `${folder}\none\ntwo\nMIRROR_TARGET=A/main\nPATH=${PATH}\n`,
    );
  });

  it('gives its exit code and the last line of its errors, safe for a log', async () => {
    const end = await shell('echo first >&2; printf "last \\033[31mline\\n\\n" >&2; exit 3');
    expect(end).toMatchObject({ exitCode: 3, lastLine: 'last \u001b[31mline' });
    expect(await shell('true')).toMatchObject({ exitCode: 0, lastLine: null });
  });

  it('may write without limit, and leave its input unread', async () => {
    const input = Array.from({ length: 50_000 }, () => 'a line that nobody reads\n');
    const end = await shell('exec head -c 3000000 /dev/zero >&2', { input });
    expect(end.exitCode).toBe(0);
    expect(end.lastLine?.length ?? 0).toBeLessThanOrEqual(3000);
  });

  it('that takes too long is stopped with its children, even if they ignore signals', async () => {
    const folder = await temporaryFolder();
    const script = `trap '' TERM; (trap '' TERM; echo $$ > parent; exec sleep 60) & echo $! > child; wait`;
    await expect(shell(script, { cwd: folder, timeoutMs: 300 })).rejects.toMatchObject({
      code: 'hook.failed',
      message: expect.stringContaining('did not end within') as string,
    });
    for (const name of ['parent', 'child']) {
      const file = `/proc/${(await readFile(join(folder, name), 'utf8')).trim()}/stat`;
      // The process is gone, or a zombie.
      await expect.poll(() => readFile(file, 'utf8').catch(() => '')).toMatch(/^$| Z /);
    }
  });

  it('has ended even if it left a child behind', async () => {
    const folder = await temporaryFolder();
    expect(await shell('sleep 60 & echo $! > child', { cwd: folder })).toMatchObject({ exitCode: 0 });
    process.kill(Number(await readFile(join(folder, 'child'), 'utf8')), 'SIGKILL');
  });

  it('fails if a signal ends it', async () => {
    await expect(shell('echo why >&2; kill -SEGV $$')).rejects.toMatchObject({
      code: 'hook.failed',
      message: 'It was ended by SIGSEGV: why',
    });
  });

  it('is stopped immediately when the program ends', async () => {
    const signal = AbortSignal.timeout(100);
    await expect(shell('sleep 60', { signal })).rejects.toMatchObject({ code: 'pass.abandoned' });
    await expect(shell('sleep 60', { signal })).rejects.toMatchObject({ code: 'pass.abandoned' });
  });

  it('fails if it cannot be started', async () => {
    const folder = await temporaryFolder();
    const script = join(folder, 'script');
    await writeFile(script, '#!/no/such/interpreter\n');
    await chmod(script, 0o755);
    await expect(shell('', { words: [script] })).rejects.toMatchObject({ code: 'hook.failed' });
    await expect(shell('', { words: [join(folder, 'absent')] })).rejects.toMatchObject({
      code: 'hook.failed',
    });
    await expect(shell('', { cwd: join(folder, 'absent') })).rejects.toMatchObject({ code: 'hook.failed' });
    const environment = { PATH, LONG: 'x'.repeat(1024 * 1024) };
    await expect(shell('', { environment })).rejects.toMatchObject({ code: 'hook.failed' });
  });

  it('fails if no file descriptor is left for it, and affects nothing else', () => {
    const script = `
      import { openSync } from 'node:fs';
      import { startProgram } from ${JSON.stringify(join(import.meta.dirname, '../../../../src/lib/process/run.ts'))};
      try { for (;;) openSync('/dev/null'); } catch {}
      const { ended, fed } = startProgram({ program: '/bin/true', args: [], environment: {}, input: ['unread'] });
      const { startError } = await ended;
      console.log(startError.code, await fed);`;
    const words = ['-c', 'ulimit -n 64; exec "$0" --input-type=module --eval "$1"', process.execPath, script];
    const { stdout, stderr } = spawnSync('sh', words, { encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: 'EMFILE null\n', stderr: '' });
  });
});

it('a program is searched for on the search path, but never in the working folder of the command', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'tool'), '#!/bin/sh\n');
  await expect(findProgram('tool', folder)).rejects.toMatchObject({ code: 'hook.failed' });
  await chmod(join(folder, 'tool'), 0o755);
  expect(await findProgram('tool', `/no/such:${folder}`)).toBe(join(folder, 'tool'));
  for (const searchPath of ['', '.', ':', 'bin:.']) {
    await expect(findProgram('package.json', searchPath)).rejects.toMatchObject({ code: 'hook.failed' });
  }
  await expect(findProgram('./tool', folder)).rejects.toMatchObject({ code: 'hook.failed' });
  await expect(findProgram(folder, '')).rejects.toMatchObject({ code: 'hook.failed' });
});
