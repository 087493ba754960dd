import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { runHere, runWith } from '../support/in-process.ts';
import { hasProgram, run, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const BOUND = { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 };

const execute = promisify(execFile);

describe('the verbosity of a command', () => {
  it('shows only data when quiet and all is well, and every step when verbose', async () => {
    const { settings } = await startEmbedded();
    expect(await run(['sync', '-q'], settings)).toMatchObject({ exitCode: 0, stdout: '', stderr: '' });
    const verbose = await runWith(['sync', '--verbose'], settings);
    expect(verbose.stderr).toContain('pass started (command)');
    const verified = await runWith(['verify', '--quiet', '--json'], settings);
    expect(verified).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(verified.stdout)).toMatchObject({ isClean: true });
    expect(await runWith(['sync', '-q', '-v'], settings)).toMatchObject({ exitCode: 2, stdout: '' });
  });

  it('sets the log level of run', async () => {
    const shown = await runHere(['config', 'show', '-v', '--json']);
    expect(JSON.parse(shown.stdout)).toMatchObject({ 'log.level': { value: 'debug' } });
    const { settings } = await startEmbedded();
    const talkative = start(['run', '-v', '--log-format', 'json'], settings);
    await talkative.prints(/"event":"pass.planned"/);
    expect((await talkative.stop()).exitCode).toBe(0);
  });
});

it('colours that are forbidden and forced cause no warning of Node', async () => {
  const { stderr } = await run(['help', 'exit-codes'], { NO_COLOR: '1', FORCE_COLOR: '1' });
  expect(stderr).toBe('');
});

it('a command whose reader goes away still ends with its exit code', async () => {
  const status = start(['status'], { WORKBOOK_MIRROR_DIRECTORY: await temporaryFolder() });
  status.child.stdout.destroy();
  // Nothing was mirrored there.
  expect(await status.ended).toMatchObject({ exitCode: 1, stderr: '' });
});

it('an unhandled error is reported as text, and ends the program as a defect', async () => {
  const script = String.raw`process.on('SIGWINCH', () => { throw new Error('odd\u009b2J\n    at nobody'); })`;
  const running = start(
    ['serve', '--serve-directory', await temporaryFolder(), '--serve-listen', '127.0.0.1:0'],
    { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` },
  );
  await running.prints(/^http/m);
  running.child.kill('SIGWINCH');
  const { exitCode, stderr } = await running.ended;
  expect(exitCode).toBe(70);
  expect(stderr).toContain(String.raw`workbook-mirror: odd\u009b2J at nobody`);
  expect(stderr).toMatch(/^ {4}at process\./m);
  expect(stderr.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
});

it.skipIf(!hasProgram('man') || !hasProgram('groff'))('help is a manual page without faults', async () => {
  const page = join(await temporaryFolder(), 'workbook-mirror.1');
  await writeFile(page, (await run(['help', '--man'])).stdout);
  const env = { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8', MANWIDTH: '80' };
  const { stdout, stderr } = await execute('man', ['-l', '--warnings=all', page], { ...BOUND, env });
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^EXIT STATUS$/m);
  expect(stdout).toMatch(/^ +service\.baseUrl$/m);
});

describe('a new user', () => {
  it('gets an error that names `help five-minutes`', async () => {
    const { exitCode, stderr } = await runHere(['sync']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('`workbook-mirror help five-minutes` how to begin');
    expect((await runHere(['help', 'five-minutes'])).exitCode).toBe(0);
  });

  it.each([
    [['status'], 1, '`workbook-mirror sync --directory '],
    [['why', 'Accounting/main'], 2, '`workbook-mirror sync --directory '],
    [['history', 'restore', 'a', '--at', 'yesterday'], 2, '`workbook-mirror history list --directory '],
  ])('learns the next step from %j before the first pass', async (args, exitCode, advice) => {
    const ended = await runHere([...args, '--directory', await temporaryFolder()]);
    expect(ended.exitCode).toBe(exitCode);
    expect(ended.stdout + ended.stderr).toContain(advice);
  });

  it.each([['why', 'a/main'], ['approve', '--all'], ['history', 'list'], ['verify'], ['status']])(
    'learns from %s that a directory is missing',
    async (...args) => {
      const { exitCode, stderr } = await runHere([...args, '--directory', '/nonexistent/mirror']);
      expect(exitCode).toBe(2);
      expect(stderr).toContain('check the setting directory');
    },
  );
});
