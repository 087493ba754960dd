import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { MAIN } from '../support/built.ts';

/** Settings of a service that nobody listens for. */
const NOWHERE = {
  WORKBOOK_MIRROR_SERVICE_BASE_URL: 'http://127.0.0.1:9/api',
  WORKBOOK_MIRROR_SERVICE_API_KEY: 'a-key-for-nothing',
};

describe('the log in the journal', () => {
  it('has a priority before every line, and JSON behind it', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'stream');
    const stream = await open(file, 'w');
    const { dev, ino } = await stream.stat({ bigint: true });
    const child = spawn(process.execPath, [MAIN, 'run'], {
      env: {
        PATH: process.env['PATH'],
        JOURNAL_STREAM: `${dev}:${ino}`,
        WORKBOOK_MIRROR_HTTP_LISTEN: 'off',
        WORKBOOK_MIRROR_DIRECTORY: join(folder, 'm'),
        ...NOWHERE,
      },
      stdio: ['ignore', stream.fd, 'inherit'],
    });
    onTestFinished(() => {
      child.kill('SIGKILL');
    });
    await expect.poll(() => readFile(file, 'utf8'), { timeout: 30_000 }).toContain('pass.failed');
    child.kill('SIGTERM');
    await once(child, 'exit');
    await stream.close();
    const lines = (await readFile(file, 'utf8')).trim().split('\n');
    const levels = lines.map((line) => [
      line.slice(0, 3),
      (JSON.parse(line.slice(3)) as { level: string }).level,
    ]);
    expect(levels).toContainEqual(['<3>', 'error']);
    expect(levels).toContainEqual(['<6>', 'info']);
    expect(new Set(levels.map(String)).size).toBeLessThanOrEqual(4);
  });
});

describe('standard error in the journal', () => {
  it('has a priority before every line: of an error, and of how a pass ended', async () => {
    const folder = await temporaryFolder();
    const told = async (
      args: readonly string[],
      env: Readonly<Record<string, string>>,
    ): Promise<string[]> => {
      const file = join(folder, 'stream');
      const stream = await open(file, 'w');
      const { dev, ino } = await stream.stat({ bigint: true });
      const child = spawn(process.execPath, [MAIN, ...args], {
        env: { PATH: process.env['PATH'], JOURNAL_STREAM: `${dev}:${ino}`, ...env },
        stdio: ['ignore', 'ignore', stream.fd],
        timeout: 60_000,
      });
      await once(child, 'exit');
      await stream.close();
      return (await readFile(file, 'utf8')).trim().split('\n');
    };
    const refused = await told(['run'], {});
    expect(refused.length).toBeGreaterThan(1);
    expect(refused.every((line) => line.startsWith('<3>'))).toBe(true);
    const { settings } = await startEmbedded();
    const synced = await told(['sync'], settings);
    expect(synced.every((line) => /^<[346]>/.test(line))).toBe(true);
    expect(synced.at(-1)).toMatch(/^<6>.*looked at/);
  });
});
