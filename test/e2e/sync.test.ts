import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run } from '../support/program.ts';
import { stampsOf } from '../support/stamps.ts';

describe('sync', () => {
  it('mirrors every branch of every repository exactly, and says so', async () => {
    const embedded = await startEmbedded();
    const { exitCode, stderr, stdout } = await run(['sync'], embedded.settings);
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '' });
    expect(stderr).toContain('6 pulled');
    expect(await embedded.differences()).toEqual([]);
  });

  it('asks for no contents and touches nothing when nothing changed, also without its state', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    const before = await stampsOf(join(embedded.directory, 'mirror'));
    embedded.requests.length = 0;
    expect((await run(['sync'], embedded.settings)).exitCode).toBe(0);
    await rm(join(embedded.directory, '.workbook-mirror'), { recursive: true });
    expect((await run(['sync'], embedded.settings)).exitCode).toBe(0);
    expect(embedded.requests.filter((request) => request.includes('/contents'))).toEqual([]);
    expect(await stampsOf(join(embedded.directory, 'mirror'))).toEqual(before);
  });

  it('pulls only the target in which a workbook changed', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    embedded.requests.length = 0;
    const edit = await embedded.writer.edit();
    const { stdout } = await run(['sync', '--json'], embedded.settings);
    const { targets } = JSON.parse(stdout) as { targets: { target: string; action: string }[] };
    const pulled = targets.filter(({ action }) => action === 'pull').map(({ target }) => target);
    expect(pulled).toEqual([`${edit.repository}/${encodeURIComponent(edit.branch)}`]);
    expect(embedded.requests.filter((request) => request.includes('/contents'))).toHaveLength(1);
    expect(await embedded.differences()).toEqual([]);
  });

  it('puts right at the next full check what someone changed in the mirror', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    const tree = join(embedded.directory, 'mirror/Accounting/main');
    await rm(join(tree, 'README.md'));
    await appendFile(join(tree, 'Budget 2026.xlsx'), 'changed');
    await writeFile(join(tree, 'extra.txt'), 'extra');
    expect(await embedded.differences()).toHaveLength(3);
    // A full check is due at the latest after its period: a state without memory and a manifest of long ago make it due.
    await rm(join(embedded.directory, '.workbook-mirror/state.db'));
    const manifest = join(embedded.directory, 'manifests/Accounting/main.json');
    const text = await readFile(manifest, 'utf8');
    await writeFile(
      manifest,
      text.replace(/"(verified|compared)_at": "[^"]*"/g, '"$1_at": "2020-01-01T00:00:00.000Z"'),
    );
    const { stderr } = await run(['sync'], embedded.settings);
    expect(stderr).toMatch(/Accounting\/main: published .*full-check/);
    expect(await embedded.differences()).toEqual([]);
  });

  it('follows a long series of edits of every kind', async () => {
    const embedded = await startEmbedded();
    for (let edits = 0; edits < 12; edits += 1) {
      await embedded.writer.edit();
      await embedded.writer.edit();
      expect((await run(['sync'], embedded.settings)).exitCode).toBe(0);
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

  it('reports a failed workbook once, and once more when it has recovered', async () => {
    const embedded = await startEmbedded();
    const id = 'Accounting/Budget 2026.xlsx';
    embedded.service.setCounters(id, { processing: 0, failure: 2 });
    expect((await run(['sync'], embedded.settings)).stderr).toMatch(
      /failed to process Accounting\/Budget 2026\.xlsx on main: 2 failures/,
    );
    expect((await run(['sync'], embedded.settings)).stderr).not.toContain('failed to process');
    embedded.service.setCounters(id, { processing: 0, failure: 0 });
    expect((await run(['sync'], embedded.settings)).stderr).toContain(
      'has processed Accounting/Budget 2026.xlsx on main',
    );
    expect((await run(['sync'], embedded.settings)).stderr).not.toContain('has processed');
  });
});

describe('the commands that look', () => {
  it('plan says what a sync would do, and changes nothing', async () => {
    const embedded = await startEmbedded();
    const { exitCode, stdout } = await run(['plan'], embedded.settings);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/pull\s+never-mirrored .*Accounting\/feature%2Fq3/);
    expect(await readdir(join(embedded.directory, '..'))).toEqual(['service']);
    await run(['sync'], embedded.settings);
    expect((await run(['plan'], embedded.settings)).stdout).toContain('Nothing would be pulled.');
  });

  it('status and why tell how things stand and why', async () => {
    const embedded = await startEmbedded();
    const before = await run(['status'], embedded.settings);
    expect(before.exitCode).toBe(2);
    expect(before.stderr).toContain('nothing was mirrored there yet');
    await run(['sync'], embedded.settings);
    const status = await run(['status'], embedded.settings);
    expect(status.exitCode).toBe(0);
    expect(status.stdout).toMatch(/fresh .*Accounting\/main/);
    const why = await run(['why', 'mirror/Accounting/main/Budget 2026.xlsx'], embedded.settings);
    expect(why.stdout).toContain('pull (never-mirrored): 10 files changed');
    expect(why.stdout).toMatch(/version [0-9a-f]{40} of .* by Anna Schäfer/);
    const unknown = await run(['why', 'Acounting/main'], embedded.settings);
    expect(unknown.exitCode).toBe(2);
    expect(unknown.stderr).toContain('The nearest is Accounting/main');
  });

  it('status shows a stale mirror as stale, and ends with 1', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    const { setTimeout: sleep } = await import('node:timers/promises');
    await sleep(1100);
    const status = await run(['status', '--max-staleness', '1s'], embedded.settings);
    expect(status.exitCode).toBe(1);
    expect(status.stdout).toMatch(/stale .*Accounting\/main/);
  });

  it('lists repositories and workbooks as the service has them', async () => {
    const embedded = await startEmbedded();
    const repositories = JSON.parse(
      (await run(['repos', 'list', '--json'], embedded.settings)).stdout,
    ) as unknown[];
    expect(repositories).toHaveLength(3);
    embedded.service.setCounters('Accounting/Budget 2026.xlsx', { processing: 1, failure: 0 });
    const { stdout } = await run(
      ['workbooks', 'list', '--status', 'processing', '--json'],
      embedded.settings,
    );
    expect(new Set((JSON.parse(stdout) as { id: string }[]).map(({ id }) => id))).toEqual(
      new Set(['Accounting/Budget 2026.xlsx']),
    );
  });
});
