import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { codeBlocks } from '../support/manual-commands.ts';
import { startMirrored } from '../support/mirror-harness.ts';
import { MAIN } from '../support/built.ts';
import { hasProgram } from '../support/program.ts';
import { textsIn } from '../support/published.ts';
import { freePort } from '../support/stores.ts';
import { temporaryFolder } from '../support/temporary.ts';

const execute = promisify(execFile);
const [SHARE = '', SHARE_OF_LINKS = ''] = codeBlocks('ini', 'samba', 'A Samba share');

const missing =
  process.getuid?.() === 0 ? ['smbd', 'smbclient'].find((program) => !hasProgram(program)) : 'root';

/** A share as in the manual, of a directory of the test and for all users, until the running test ends. */
async function startSamba(share: string, directory: string) {
  const folder = await temporaryFolder();
  const port = await freePort();
  const own = ['private dir', 'state directory', 'lock directory', 'cache directory', 'pid directory'];
  const settings = [
    '[global]',
    'server role = standalone server',
    'map to guest = Bad User',
    'guest account = nobody',
    'disable spoolss = yes',
    'load printers = no',
    'interfaces = 127.0.0.1',
    'bind interfaces only = yes',
    `smb ports = ${port}`,
    ...own.map((name) => `${name} = ${folder}`),
    `ncalrpc dir = ${join(folder, 'rpc')}`,
    `log file = ${join(folder, 'log')}`,
    share
      .replace('/var/lib/workbook-mirror', directory)
      .replace(/valid users = .*/, 'guest ok = yes\n  force user = root'),
  ];
  const file = join(folder, 'smb.conf');
  await writeFile(file, settings.join('\n'));
  const checked = await execute('testparm', ['--suppress-prompt', file]);
  expect(checked.stderr).not.toMatch(/unknown|invalid|ignoring/i);
  const smbd = spawn('smbd', ['--foreground', `--configfile=${file}`], {
    stdio: 'ignore',
  });
  onTestFinished(async () => {
    smbd.kill('SIGTERM');
    if (smbd.exitCode === null) await once(smbd, 'exit');
  });
  const client = ['smbclient', '-N', '-p', String(port), '-s', file, '//127.0.0.1/workbooks', '-c'];
  /** Runs a command of a client. @returns its output */
  const ask = async (commands: string, under: readonly string[] = []): Promise<string> => {
    const [program, ...args] = [...under, ...client, commands];
    const { stdout, stderr } = await execute(program, args).catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    return stdout + stderr;
  };
  await vi.waitFor(async () => expect(await ask('ls')).toContain('blocks available'), { timeout: 30_000 });
  return ask;
}

const NAMES = Array.from({ length: 25 }, (_, index) => `folder ${index % 3}/${index}.xlsx`);
/** Long enough for several pieces. */
const contentOf = (name: string, edit: number): string => `${name} ${edit}\n`.repeat(6_000);

/** The edit of a file; fails for a mixture. */
function editOf(name: string, content: string): number {
  const [, edit = ''] = / (\d+)\n$/.exec(content) ?? [];
  expect(content === contentOf(name, Number(edit)), `${name} is whole`).toBe(true);
  return Number(edit);
}

describe.skipIf(missing !== undefined)(`a Samba share (${missing ?? 'with smbd'})`, () => {
  it.each([
    ['auto', SHARE, ''],
    ['link', SHARE_OF_LINKS, 'mirror\\'],
  ] as const)(
    'gives whole files while all is published, and one state under a lease, with publish: %s',
    async (publish, share, below) => {
      const files = (edit: number) => Object.fromEntries(NAMES.map((name) => [name, contentOf(name, edit)]));
      const settings = { PUBLISH: publish };
      const { service, mirror, repository } = await startMirrored('Accounting', files(0), settings);
      const ask = await startSamba(share, mirror.directory);
      const folder = await temporaryFolder();

      const work = { isOver: false, edits: 0 };
      const busy = (async () => {
        for (; !work.isOver; work.edits += 1) {
          for (const [name, content] of Object.entries(files(work.edits + 1)))
            service.write(repository, 'main', name, content);
          await mirror.pass();
        }
      })();
      onTestFinished(async () => {
        work.isOver = true;
        await busy;
      });
      const copy = async (under: readonly string[] = []): Promise<Set<number>> => {
        const place = join(folder, 'copy');
        await rm(place, { recursive: true, force: true });
        await mkdir(place);
        const said = await ask(
          `cd ${below}Accounting\\main; lcd ${place}; prompt off; recurse on; mget *`,
          under,
        );
        expect(said).not.toContain('NT_STATUS');
        const texts = Object.entries(await textsIn(place));
        expect(texts).toHaveLength(NAMES.length);
        return new Set(texts.map(([name, text]) => editOf(name, text)));
      };
      const end = work.edits + 4;
      while (work.edits < end) await copy();
      const options = ['--for=1m', '--directory', mirror.directory, '--'];
      const lease = [process.execPath, MAIN, 'lease', 'acquire', ...options];
      for (let time = 0; time < 3; time += 1) {
        const before = work.edits;
        expect((await copy(lease)).size).toBe(1);
        await vi.waitFor(() => expect(work.edits).toBeGreaterThan(before), { timeout: 30_000 });
      }
    },
  );

  it('shows names as the manual says, nothing that is private, and refuses writes', async () => {
    const files = { 'plan.xlsx': 'one', 'it is: odd.xlsx': 'odd' };
    const { mirror } = await startMirrored('Accounting', files, { PUBLISH: 'link' });
    const ask = await startSamba(SHARE_OF_LINKS, mirror.directory);
    // The service of the tests does not have two such names.
    await writeFile(join(mirror.directory, 'mirror/Accounting/main/PLAN.xlsx'), 'two');
    const [, short = ''] = /^ +(\S+~\S*) /m.exec(await ask('cd mirror\\Accounting\\main; ls')) ?? [];
    const read = (name: string) => ask(`cd mirror\\Accounting\\main; get ${name} -`);
    expect(await read(short)).toMatch(/^odd/);
    expect(await read('plan.xlsx')).toMatch(/^one/);
    expect(await read('PLAN.xlsx')).toMatch(/^two/);
    expect(await read('Plan.XLSX')).toMatch(/^(one|two)/);
    expect(await ask('ls')).not.toContain('.workbook-mirror');
    expect(await ask('cd .workbook-mirror')).toContain('NT_STATUS_OBJECT_NAME_NOT_FOUND');
    expect(await ask('cd mirror; mkdir x')).toContain('NT_STATUS_');
    expect(await ask('cd mirror\\Accounting\\main; del plan.xlsx')).toContain('NT_STATUS_');
    expect(await readdir(join(mirror.directory, 'mirror'))).toEqual(['Accounting']);
    expect(await read('plan.xlsx')).toMatch(/^one/);
  });
});
