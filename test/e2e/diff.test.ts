import { readdir } from 'node:fs/promises';

import { expect, it, vi } from 'vitest';

import { startSynced } from '../support/mirror-commands.ts';
import { start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'diff --upstream leaves nothing behind when %s ends it, and does not exit as if files differed',
  async (signal) => {
    const { service, variables } = await startSynced({ Accounting: { 'a.xlsx': 'one', 'b.xlsx': 'two' } });
    const temporary = await temporaryFolder();
    service.write(service.named(), 'main', 'a.xlsx', 'another');
    service.fault = (path) => (path.includes('/contents') ? { kind: 'stall', after: 10 } : null);
    const settings = { ...variables, TMPDIR: temporary };
    const { child, ended } = start(['diff', 'Accounting/main', '--upstream', '--json'], settings);
    await vi.waitFor(async () => {
      const [made] = await readdir(temporary);
      expect(made).toMatch(/^workbook-mirror-diff-/);
      expect(service.takeDownloads()).not.toEqual([]);
    }, 120_000);
    child.kill(signal);
    const { exitCode, stdout } = await ended;
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'pass.abandoned' } });
    expect(await readdir(temporary)).toEqual([]);
  },
);
