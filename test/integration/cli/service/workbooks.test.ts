import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { MirroredRow } from '../../../../src/cli/service/workbooks.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { runHere, type Written } from '../../../support/in-process.ts';
import { MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import type { Variables } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function mirrored(settings: Variables = {}) {
  const { service, mirror } = await startPair({ digests: true }, settings);
  const plan = service.addRepository('Org/Plan', {
    'plan.xlsx': 'a',
    'Q1/Bücher.xlsx': 'b',
    'notes [old].txt': 'c',
  });
  service.write(plan, 'feature/x', 'plan.xlsx', 'd');
  service.addRepository('Sales', { 'Plan 2026.xlsx': 'e' });
  await mirror.pass();
  return { service, mirror };
}

function search(directory: string, ...flags: readonly string[]): Promise<Written> {
  return runHere(['workbooks', 'list', '--offline', ...flags], { DIRECTORY: directory });
}

async function found(directory: string, ...flags: readonly string[]): Promise<string[]> {
  const { stdout, stderr, exitCode } = await search(directory, '--json', ...flags);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  return (JSON.parse(stdout) as MirroredRow[]).map(({ target, path }) => `${target}/${path}`);
}

describe('the list of workbooks without the service', () => {
  it.each(['auto', 'link'])(
    'has the rows of the service, as far as the mirror knows them (%s)',
    async (publish) => {
      const { service, mirror } = await mirrored({ PUBLISH: publish });
      const settings = service.settingsFor(mirror.directory);
      const online = await runHere(['workbooks', 'list', '--json'], settings);
      await service.close();
      const offline = await search(mirror.directory, '--json');
      expect(offline).toMatchObject({ exitCode: 0, stderr: '' });
      const rows = JSON.parse(offline.stdout) as MirroredRow[];
      const listed = JSON.parse(online.stdout) as WorkbookRow[];
      const unknown = { versionStatus: null, processing: null, failure: null };
      const byKey = <T extends { repository: string; branch: string; path: string }>(all: readonly T[]) =>
        Object.fromEntries(all.map((row) => [`${row.repository} ${row.branch} ${row.path}`, row]));
      expect(byKey(rows.map(({ target: _, ...row }) => row))).toEqual(
        byKey(listed.map((row) => Object.assign(row, unknown))),
      );
      expect(new Set(rows.map(({ target }) => target))).toEqual(
        new Set(['Org/Plan/main', 'Org/Plan/feature%2Fx', 'Sales/main']),
      );
      expect(offline.stdout).toBe(`${JSON.stringify(rows, null, 2)}\n`);
    },
  );

  it('has files that are not workbooks in a search by name', async () => {
    const { directory } = (await mirrored()).mirror;
    expect(await found(directory, '--name', 'NOTES [old]')).toEqual(['Org/Plan/main/notes [old].txt']);
    expect(await found(directory, '--name', 'notes', '--author', 'a')).toEqual([]);
    expect((await search(directory, '--name', '**')).stdout).toContain(
      '4 workbooks and 1 other file found in 3 targets',
    );
  });

  it('names unreadable parts, shows the rest, and ends with 1', async () => {
    const { directory } = (await mirrored()).mirror;
    await writeFile(join(directory, 'manifests/Org/Plan/main.json'), '{');
    await rm(join(directory, 'manifests/Org/Plan/feature%2Fx.json'));
    const { exitCode, stdout, stderr } = await search(directory, '--json');
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject([{ target: 'Sales/main' }]);
    expect(stderr).toContain('The manifest of Org/Plan/main cannot be used: it is not JSON.\n');
    expect(stderr).toContain('Org/Plan/feature%2Fx is lost');
    await writeFile(join(directory, 'inventory.json'), '{');
    expect((await search(directory)).stderr).toContain('inventory.json cannot be used');
  });

  it('works on a copy of a backup, and writes nothing', async () => {
    const { directory } = (await mirrored()).mirror;
    const inventory = await readFile(join(directory, 'inventory.json'), 'utf8');
    await rm(join(directory, '.workbook-mirror'), { recursive: true });
    await rm(join(directory, 'mirror'), { recursive: true });
    expect(await found(directory, '--name', 'bücher')).toEqual(['Org/Plan/main/Q1/Bücher.xlsx']);
    expect(await readFile(join(directory, 'inventory.json'), 'utf8')).toBe(inventory);
  });

  it('has the targets of all instances of a directory', async () => {
    const { service, mirror } = await startPair({}, { SHARD: '1/2' });
    for (const name of ['A', 'B', 'C', 'D', 'E', 'F']) service.addRepository(name, { 'plan.xlsx': name });
    const other = await MirrorHarness.open(service, { SHARD: '2/2' }, mirror.directory);
    onTestFinished(() => other.stop());
    await mirror.pass();
    await other.pass();
    const list = await runHere(['workbooks', 'list', '--offline', '--json'], {
      DIRECTORY: mirror.directory,
      SHARD: '1/2',
    });
    expect(JSON.parse(list.stdout)).toHaveLength(6);
  });

  it('ends with 1 without a mirror, and with 2 for invalid arguments', async () => {
    const folder = await temporaryFolder();
    const nothing = await search(folder, '--json');
    expect(nothing).toMatchObject({ exitCode: 1, stdout: '[]\n' });
    expect(nothing.stderr).toContain('Nothing is mirrored in');
    expect((await search(join(folder, 'no'))).exitCode).toBe(2);
    for (const [flag, value] of Object.entries({ '--name': '', '--since': 'x', '--status': 'failure' }))
      expect((await search(folder, flag, value)).exitCode).toBe(2);
  });
});

it('the list of workbooks of the service is filtered in the same way', async () => {
  const { service, mirror } = await mirrored();
  const settings = service.settingsFor(mirror.directory);
  const flags = ['--name', '*.xlsx', '--branch', 'main', '--json'];
  const list = await runHere(['workbooks', 'list', ...flags], settings);
  const rows = JSON.parse(list.stdout) as WorkbookRow[];
  expect(rows.map(({ path }) => path).sort()).toEqual(['Plan 2026.xlsx', 'Q1/Bücher.xlsx', 'plan.xlsx']);
  const none = await runHere(['workbooks', 'list', '--author', 'nobody'], settings);
  expect(none).toMatchObject({ exitCode: 0, stdout: '0 workbooks.\n' });
});
