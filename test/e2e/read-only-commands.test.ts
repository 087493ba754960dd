import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run } from '../support/program.ts';

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
    const flags = ['--config', '/dev/null', '--directory', embedded.directory];
    expect((await run(['status', ...flags])).stdout).toMatch(/fresh .*Accounting\/main/);
    const why = await run(['why', 'mirror/Accounting/main/Budget 2026.xlsx'], embedded.settings);
    expect(why.stdout).toContain('pull (never-mirrored): 9 files changed');
    expect(why.stdout).toMatch(/version [0-9a-f]{40} of .* by Anna Schäfer/);
    const unknown = await run(['why', 'Acounting/main'], embedded.settings);
    expect(unknown.exitCode).toBe(2);
    expect(unknown.stderr).toContain('The nearest is Accounting/main');
  });
});
