import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { MAIN } from '../support/built.ts';
import { startSynced } from '../support/mirror-commands.ts';
import { cleanEnvironment, hasProgram } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const execute = promisify(execFile);

/** A mirror with one state in its history, and the bytes of a workbook in that state. */
async function changed() {
  const [path, bytes] = ['Q1/plan.xlsx', Buffer.from('the state before\n'.repeat(10_000))];
  const { service, run, variables } = await startSynced({ Accounting: { [path]: String(bytes) } });
  service.write(service.named(), 'main', path, 'another state');
  expect((await run('sync')).exitCode).toBe(0);
  return { settings: variables, target: 'Accounting/main', path, bytes, run };
}

/** Runs a line of a shell in which `$@` is the program with its first arguments. */
function inShell(line: string, args: readonly string[], settings: Readonly<Record<string, string>>) {
  return execute('bash', ['-c', line, 'bash', process.execPath, MAIN, ...args], {
    encoding: 'buffer',
    env: cleanEnvironment(settings),
  });
}

describe('a single file of the history', () => {
  it('is written to standard output, byte for byte, or into a folder', async () => {
    const { settings, target, path, bytes, run } = await changed();
    const args = ['history', 'restore', target, path];
    const { stdout, stderr } = await inShell('"$@"', args, settings);
    expect(stdout.equals(bytes)).toBe(true);
    expect(String(stderr)).toContain(`${target}, the state that left the mirror at `);
    expect(String((await inShell('"$@"', [...args, '-q'], settings)).stderr)).toBe('');
    const to = join(await temporaryFolder(), 'x');
    expect((await run(...args, '--to', to)).exitCode).toBe(0);
    expect(await readFile(join(to, path))).toEqual(bytes);
  });

  it('ends with 1 if its reader closes early, as half a file is useless, and reports a full disk', async () => {
    const { settings, target, path } = await changed();
    const args = ['history', 'restore', target, path];
    const read = await inShell('"$@" -q | true; echo "${PIPESTATUS[0]}"', args, settings);
    expect(String(read.stdout)).toBe('1\n');
    const full = await inShell('"$@" -q > /dev/full; echo $?', args, settings);
    expect(String(full.stdout)).toBe('1\n');
    expect(String(full.stderr)).toContain('cannot write to standard output: ENOSPC');
  });

  it('is refused with other files, with JSON or on a terminal', async () => {
    const { settings, target, path, run } = await changed();
    for (const more of ['--json', path]) {
      const refused = await run('history', 'restore', target, path, more);
      expect(refused.exitCode).toBe(2);
      expect(refused.stderr).toContain('--to FOLDER');
    }
    if (!hasProgram('script')) return;
    const line = 'printf -v line "%q " "$@"; script -qec "$line" /dev/null < /dev/null; echo "ended $?"';
    const typed = String((await inShell(line, ['history', 'restore', target, path], settings)).stdout);
    expect(typed).toContain('Standard output is a terminal');
    expect(typed).toContain('ended 2');
  });
});
