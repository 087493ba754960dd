import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { FakeService } from '../support/fake-service.ts';
import { run, start, variablesOf } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

describe('diff --upstream', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'leaves nothing behind when %s ends it, and does not exit as if files differed',
    async (signal) => {
      const service = await FakeService.start();
      const folder = await temporaryFolder();
      const temporary = join(folder, 'tmp');
      await mkdir(temporary);
      const settings = {
        ...variablesOf(service.settingsFor(join(folder, 'mirrored'))),
        TMPDIR: temporary,
      };
      const repository = service.addRepository('Accounting', { 'a.xlsx': 'one', 'b.xlsx': 'two' });
      expect((await run(['sync'], settings)).exitCode).toBe(0);
      service.write(repository, 'main', 'a.xlsx', 'another');
      service.fault = (path) => (path.includes('/contents') ? { kind: 'stall', after: 10 } : null);
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
      await service.close();
    },
  );
});
