import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { DiffReport } from '../../../../src/app/tasks/diff-report.ts';
import { diff } from '../../../../src/cli/read/diff.ts';
import { listHistory } from '../../../../src/cli/history/history.ts';
import { runHere, type Written } from '../../../support/in-process.ts';
import { type MirrorHarness, startMirrored, startPair } from '../../../support/mirror-harness.ts';

/** The differences, one text per file. */
function lines({ differences }: DiffReport): string[] {
  return differences.map(({ change, path, movedFrom }) =>
    movedFrom === null ? `${change} ${path}` : `${change} ${path} from ${movedFrom}`,
  );
}

/** Runs the command on the directory of a mirror. */
function run({ directory }: MirrorHarness, ...args: readonly string[]): Promise<Written> {
  return runHere(['diff', ...args], { DIRECTORY: directory });
}

/** A mirror that published three states of one target, the last one with every kind of difference. */
async function changedTwice(publish = 'auto'): Promise<{ mirror: MirrorHarness; path: string }> {
  const { service, mirror, repository } = await startMirrored(
    'Accounting',
    {
      'a.xlsx': 'one',
      'b.xlsx': 'two',
      'old/c.xlsx': 'three',
      'notes.txt': 'n',
    },
    { HISTORY_REPLACED: 'forever', PUBLISH: publish },
  );
  service.write(repository, 'main', 'a.xlsx', 'one more');
  await mirror.pass();
  service.write(repository, 'main', 'a.xlsx', 'one and the last');
  service.remove(repository, 'main', 'b.xlsx');
  service.remove(repository, 'main', 'old/c.xlsx');
  service.write(repository, 'main', 'new/c.xlsx', 'three');
  service.write(repository, 'main', 'd.xlsx', 'four');
  await mirror.pass();
  return { mirror, path: 'Accounting/main' };
}

describe('diff', () => {
  it.each(['auto', 'link'])(
    'shows what the last publish changed, published by %s, beside whoever mirrors',
    async (publish) => {
      const { mirror, path } = await changedTwice(publish);
      const found = await diff(mirror.diskSettings, `${mirror.directory}/mirror/${path}/`, null);
      expect(lines(found)).toEqual([
        'changed a.xlsx',
        'removed b.xlsx',
        'added d.xlsx',
        'moved new/c.xlsx from old/c.xlsx',
      ]);
      expect(found).toMatchObject({
        target: path,
        counts: { added: 1, changed: 1, removed: 1, moved: 1 },
        before: { place: 'history', kind: 'replaced', files: 4, sizeBytes: 17 },
        after: { place: 'mirror', files: 4, leftAtMs: null },
      });
      const [changed] = found.differences;
      expect(changed?.before?.sizeBytes).toBe(8);
      expect(changed?.after).toMatchObject({ sizeBytes: 16, workbook: { id: 'Accounting/a.xlsx' } });
      expect(changed?.after?.workbook?.versionId).not.toBe(changed?.before?.workbook?.versionId);
    },
  );

  it('compares with the state at a time, and finds nothing if it is still published', async () => {
    const { mirror, path } = await changedTwice();
    const [first, second] = await listHistory(mirror.diskSettings, path);
    const at = (timeMs: number): Promise<DiffReport> => diff(mirror.diskSettings, path, timeMs);
    expect((await at(first?.leftAtMs ?? 0)).before).toMatchObject({ leftAtMs: first?.leftAtMs });
    expect(lines(await at(first?.leftAtMs ?? 0))).toHaveLength(4);
    expect((await at(second?.leftAtMs ?? 0)).before.leftAtMs).toBe(second?.leftAtMs);
    const now = await at(Date.now());
    expect(now).toMatchObject({ before: { place: 'mirror' }, after: { place: 'mirror' }, differences: [] });
    const earliest = new Date(first?.changedAtMs ?? 0).toISOString();
    await expect(at(Date.UTC(2001, 0))).rejects.toMatchObject({
      code: 'history.not_found',
      hint: expect.stringContaining(`The earliest state after that is of ${earliest}.`) as string,
    });
  });

  it('prints a line per file and a summary or one JSON document, and has an exit code for differences', async () => {
    const { mirror, path } = await changedTwice();
    const { exitCode, stdout, stderr } = await run(mirror, path);
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: '' });
    expect(stdout).toMatch(/^Accounting\/main\n {2}before: as it left the mirror at .*; 4 files, 17 B\n/);
    expect(stdout).toMatch(/^changed +a\.xlsx +8 B -> 16 B +\S+ -> \S+ /m);
    expect(stdout).toMatch(/^moved +new\/c\.xlsx .*\n {2}moved from old\/c\.xlsx$/m);
    expect(stdout).toMatch(/\n4 files differ: 1 added, 1 changed, 1 removed, 1 moved\.\n$/);

    const json = await run(mirror, path, '--json');
    expect(json.exitCode).toBe(1);
    expect(JSON.parse(json.stdout)).toEqual(await diff(mirror.diskSettings, path, null));
    const same = await run(mirror, path, '--at', new Date().toISOString());
    expect(same).toMatchObject({ exitCode: 0, stderr: '' });
    expect(same.stdout).toContain('\nNo file differs.\n');
  });

  it('reports that a retired target is no longer mirrored', async () => {
    const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
    const gone = service.addRepository('Gone', { 'plan.xlsx': 'one' });
    service.addRepository('Kept', { 'plan.xlsx': 'x' });
    await mirror.pass();
    service.removeRepository(gone);
    await mirror.pass();
    const found = await diff(mirror.diskSettings, 'Gone/main', null);
    expect(lines(found)).toEqual(['removed plan.xlsx']);
    expect(found).toMatchObject({ before: { kind: 'retired' }, after: { place: 'nothing', files: 0 } });
    const { stdout } = await run(mirror, 'history/Gone/main');
    expect(stdout).toContain('after:  nothing: it is no longer mirrored');
    expect(stdout).toContain('history list');
  });

  it('names the missing part: the setting that keeps states, the nearest target, a usable manifest', async () => {
    const { mirror } = await startMirrored('Accounting', { 'a.xlsx': 'one' });
    const none = await run(mirror, 'Accounting/main');
    expect(none).toMatchObject({ exitCode: 2, stdout: '' });
    expect(none.stderr).toContain('In these settings history.replaced keeps 7d');
    expect((await run(mirror, 'Acounting/main')).stderr).toContain('The nearest is Accounting/main.');
    expect((await run(mirror, '../../etc/main')).exitCode).toBe(2);
    expect((await run(mirror, 'Accounting/main', '--at', 'soon')).exitCode).toBe(2);
    await writeFile(join(mirror.directory, 'manifests/Accounting/main.json'), '{');
    const damaged = await run(mirror, 'Accounting/main', '--json');
    expect(damaged.exitCode).toBe(2);
    expect(JSON.parse(damaged.stdout)).toMatchObject({ error: { code: 'disk.failed' } });
  });

  it('does not report problems of the history as differences', async () => {
    const { mirror, path } = await changedTwice();
    const entries = await listHistory(mirror.diskSettings, path);
    await rm(`${entries.at(-1)?.folder ?? ''}.json`);
    const { exitCode, stderr } = await run(mirror, path);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('cannot be used: it is not there');
  });
});
