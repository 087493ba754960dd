import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run } from '../support/program.ts';

describe('sync', () => {
  it('follows a long series of edits of every kind', async () => {
    const embedded = await startEmbedded();
    for (let edits = 0; edits < 12; edits += 1) {
      await embedded.writer.edit();
      await embedded.writer.edit();
      const { exitCode, stderr } = await run(['sync'], embedded.settings);
      expect(exitCode, stderr).toBe(0);
    }
    expect(await embedded.differences()).toEqual([]);
  });

  it('writes a manifest that names every file with its version', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    const text = await readFile(join(embedded.directory, 'manifests/Accounting/main.json'), 'utf8');
    const manifest = JSON.parse(text) as {
      repository: { full_name: string };
      files: { path: string; sha256: string; workbook?: { version: string; author: string } }[];
    };
    expect(manifest.repository.full_name).toBe('Accounting');
    const workbook = manifest.files.find((file) => file.path === 'Budget 2026.xlsx');
    expect(workbook?.workbook).toMatchObject({
      version: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
      author: 'Anna Schäfer',
    });
    const onDisk = await readdir(join(embedded.directory, 'mirror/Accounting/main'), {
      recursive: true,
      withFileTypes: true,
    });
    expect(manifest.files).toHaveLength(onDisk.filter((entry) => entry.isFile()).length);
  });
});

describe('the commands that only read', () => {
  it('plan shows the actions of a sync, and changes nothing', async () => {
    const embedded = await startEmbedded();
    const { exitCode, stdout } = await run(['plan'], embedded.settings);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/pull\s+never-mirrored .*Accounting\/feature%2Fq3/);
    expect(await readdir(join(embedded.directory, '..'))).toEqual(['service']);
    await run(['sync'], embedded.settings);
    expect((await run(['plan'], embedded.settings)).stdout).toContain('Nothing would be pulled.');
  });

  it('status and why show the state and its reason', async () => {
    const embedded = await startEmbedded();
    const before = await run(['status'], embedded.settings);
    expect(before.exitCode).toBe(2);
    expect(before.stderr).toContain('nothing was mirrored there yet');
    await run(['sync'], embedded.settings);
    const status = await run(['status'], embedded.settings);
    expect(status.exitCode).toBe(0);
    expect(status.stdout).toMatch(/fresh .*Accounting\/main/);
    const why = await run(['why', 'mirror/Accounting/main/Budget 2026.xlsx'], embedded.settings);
    expect(why.stdout).toContain('pull (never-mirrored): 9 files changed');
    expect(why.stdout).toMatch(/version [0-9a-f]{40} of .* by Anna Schäfer/);
    const unknown = await run(['why', 'Acounting/main'], embedded.settings);
    expect(unknown.exitCode).toBe(2);
    expect(unknown.stderr).toContain('The nearest is Accounting/main');
  });
});
