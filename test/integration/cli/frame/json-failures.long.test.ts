import { createServer } from 'node:http';
import { join } from 'node:path';

import type { Command } from 'commander';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';

import { createProgram } from '../../../../src/cli/frame/program.ts';
import { runHere, type Written } from '../../../support/in-process.ts';
import { startEmbedded } from '../../../support/embedded.ts';
import { listen } from '../../../support/listen.ts';
import { run } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** The other arguments that commands with `--json` need. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  why: ['Accounting/main'],
  diff: ['Accounting/main'],
  approve: ['--all'],
  forget: ['Accounting/main'],
  retry: ['--all'],
  'history prune': ['--older-than', '7d'],
  'hooks test': ['webhook'],
  'history restore': ['Accounting/main'],
  'lease acquire': ['--for', '1m'],
  'lease release': ['--all'],
  'repos create': ['--name', 'A'],
  'config check': ['--online'],
  'keys create': ['--kind', 'personal', '--name', 'Anna'],
};

const failureSchema = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string(), hint: z.string().nullable() }),
});

function leaves(command: Command, path: readonly string[] = []): [string, Command][] {
  if (command.commands.length === 0) return [[path.join(' '), command]];
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]));
}

function expectFailure({ stdout, stderr }: Pick<Written, 'stdout' | 'stderr'>, code: string): void {
  const { error } = failureSchema.parse(JSON.parse(stdout));
  expect(error.code).toBe(code);
  expect(stderr).toContain(error.message);
}

/** The variables that make Node run a script before the program. */
function preloaded(script: string): string {
  return `--import=data:text/javascript,${encodeURIComponent(script)}`;
}

/** The address of a service that never answers. */
async function silentService(): Promise<string> {
  return `http://${await listen(createServer())}/api`;
}

async function silentSettings(): Promise<Record<string, string>> {
  return {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: await silentService(),
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
    WORKBOOK_MIRROR_DIRECTORY: join(await temporaryFolder(), 'mirrored'),
  };
}

describe('a command with --json that fails', () => {
  const reporting = leaves(createProgram()).filter(([, command]) =>
    command.options.some(({ long }) => long === '--json'),
  );

  it.each(reporting)('says so in JSON: %s', async (path) => {
    const line = [...path.split(' '), ...(ARGUMENTS[path] ?? [])];
    const settings = await runHere([...line, '--json'], { SHEDULE: 'x' });
    expect(settings.exitCode).toBe(2);
    expectFailure(settings, 'settings.invalid');
    for (const usage of [
      [...line, '--json', '--no-such-flag'],
      [...line, '--no-such-flag', '--json'],
      [...path.split(' '), '--json', '--config'],
    ]) {
      const refused = await runHere(usage);
      expect(refused.exitCode).toBe(2);
      expectFailure(refused, 'usage.invalid');
    }
  });

  it.each([
    [['why', '--json']],
    [['approve', '--json']],
    [['lease', 'release', '--json']],
    [['lease', 'acquire', '--json', '--for', '1m', '--', 'true', '--json']],
    [['keys', 'create', '--kind', 'none', '--json']],
    [['synk', '--json']],
    [['--json']],
  ])('says so in JSON if the line is invalid: %j', async (line) => {
    const refused = await runHere(line, { DIRECTORY: '/nowhere' });
    expect(refused.exitCode).toBe(2);
    expectFailure(refused, 'usage.invalid');
  });

  it.each([
    [['status'], 2, 'directory.unusable'],
    [['verify'], 2, 'directory.unusable'],
    [['lease', 'list'], 2, 'directory.unusable'],
    [['repos', 'list', '--service-base-url', 'http://127.0.0.1:1/api'], 3, 'service.unreachable'],
  ])('reports the failure of the command: %j', async (line, exitCode, code) => {
    const failed = await runHere([...line, '--json'], { DIRECTORY: '/nowhere', SERVICE_API_KEY: 'key' });
    expect(failed.exitCode).toBe(exitCode);
    expectFailure(failed, code);
  });

  it('reports a defect in JSON', async () => {
    vi.doMock('../../../../src/cli/read/status.ts', () => ({
      runStatus: () => Promise.reject(new TypeError('boom')),
    }));
    onTestFinished(() => {
      vi.doUnmock('../../../../src/cli/read/status.ts');
    });
    const failed = await runHere(['status', '--json'], { DIRECTORY: '/nowhere' });
    expect(failed.exitCode).toBe(70);
    expectFailure(failed, 'internal.defect');
  });

  it('reports an unhandled error in JSON', async () => {
    const boom = `process.on('newListener',(n)=>{if(n==='uncaughtException')setImmediate(()=>{throw new TypeError('boom')})})`;
    const failed = await run(['plan', '--json'], {
      ...(await silentSettings()),
      NODE_OPTIONS: preloaded(boom),
    });
    expect(failed.exitCode).toBe(70);
    expectFailure(failed, 'internal.defect');
  });

  it('prints nothing on standard output without the flag, nor for the flag of another program', async () => {
    expect((await runHere(['status'], { DIRECTORY: '/nowhere' })).stdout).toBe('');
    const line = ['lease', 'acquire', '--for', '1m', '--', 'true', '--json'];
    expect((await runHere(line, { DIRECTORY: '/nowhere' })).stdout).toBe('');
  });

  it('prints only its report, even if it ends with 1', async () => {
    const { settings, directory } = await startEmbedded();
    await run(['sync'], settings);
    const stale = await runHere(['status', '--json'], { DIRECTORY: directory, MAX_STALENESS: '1s' });
    expect(JSON.parse(stale.stdout)).toHaveProperty('targets');
    const missing = await runHere(['verify', '--json', 'No/such'], { DIRECTORY: directory });
    expect(missing.exitCode).not.toBe(0);
    expect(JSON.parse(missing.stdout)).toBeDefined();
  });
});
