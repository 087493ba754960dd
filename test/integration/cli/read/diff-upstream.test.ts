import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import type { DiffReport } from '../../../../src/app/tasks/diff-report.ts';
import { diff } from '../../../../src/cli/read/diff.ts';
import type { SettingsFor } from '../../../../src/config/schema.ts';
import type { FakeService } from '../../../support/fake-service.ts';
import { CORPUS_LIMITS, hostileArchives } from '../../../support/hostile-archives.ts';
import { runHere } from '../../../support/in-process.ts';
import {
  type HarnessSettings,
  MirrorHarness,
  startMirrored,
  startPair,
} from '../../../support/mirror-harness.ts';
import { mirrorSettings } from '../../../support/settings.ts';
import { stampsOf } from '../../../support/stamps.ts';
import { runTaskHere } from '../../../support/tasks.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const FILES = { 'a.xlsx': 'one', 'b.xlsx': 'two', 'old/c.xlsx': 'three' };

/** The arguments of a command line beside the mirror. */
function variables(service: FakeService, { directory }: MirrorHarness, more: HarnessSettings = {}) {
  return { ...service.settingsFor(directory), ...more };
}

function settingsFor(...args: Parameters<typeof variables>): SettingsFor<'service' | 'directory'> {
  return mirrorSettings(variables(...args));
}

function diffUpstream(settings: SettingsFor<'directory'>, target: string): Promise<DiffReport> {
  return runTaskHere('diff', settings, { target });
}

/** A separate folder for temporary files, to see that nothing stays in it. */
async function ownTemporaryFolder(): Promise<string> {
  const folder = join(await temporaryFolder(), 'tmp');
  await mkdir(folder);
  vi.stubEnv('TMPDIR', folder);
  return folder;
}

/** Everything in the directory but the state cache, with inodes and times. */
async function stamps({ directory }: MirrorHarness): Promise<Record<string, string>> {
  const found = Object.entries(await stampsOf(directory));
  return Object.fromEntries(found.filter(([path]) => !path.includes('state.db')));
}

function lines({ differences }: DiffReport): string[] {
  return differences.map(({ change, path }) => `${change} ${path}`);
}

describe('diff --upstream', () => {
  it.each([
    ['auto', 'none'],
    ['link', 'none'],
    ['auto', 'strong'],
  ] as const)(
    'says what the next pass would publish, and changes nothing (publish: %s, entity tags: %s)',
    async (publish, etag) => {
      const kept = { HISTORY_REPLACED: 'forever', PUBLISH: publish };
      const { service, mirror, repository } = await startMirrored('Accounting', FILES, kept, { etag });
      const temporary = await ownTemporaryFolder();
      const settings = settingsFor(service, mirror);
      const same = await diffUpstream(settings, 'Accounting/main');
      expect(same).toMatchObject({ differences: [], by: 'lists', after: { place: 'service', files: 3 } });

      service.write(repository, 'main', 'a.xlsx', 'one more');
      service.remove(repository, 'main', 'b.xlsx');
      service.remove(repository, 'main', 'old/c.xlsx');
      service.write(repository, 'main', 'new/c.xlsx', 'three');
      const before = await stamps(mirror);
      const found = await diffUpstream(settings, 'Accounting/main');
      expect(lines(found)).toEqual(['changed a.xlsx', 'removed b.xlsx', 'moved new/c.xlsx']);
      expect(found).toMatchObject({ by: 'contents', before: { place: 'mirror' } });
      expect(await stamps(mirror)).toEqual(before);
      expect(await readdir(temporary)).toEqual([]);

      await mirror.pass();
      const published = await diff(mirror.diskSettings, 'Accounting/main', null);
      expect(published.differences).toEqual(found.differences);
      expect((await diffUpstream(settings, 'Accounting/main')).differences).toEqual([]);
    },
  );

  it('downloads nothing if the lists show nothing new, and only new versions if these are enough', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', FILES);
    const settings = settingsFor(service, mirror);
    service.takeRequests();
    await diffUpstream(settings, 'Accounting/main');
    expect(service.takeDownloads()).toEqual([]);
    service.write(repository, 'main', 'a.xlsx', 'one more');
    service.takeRequests();
    expect(lines(await diffUpstream(settings, 'Accounting/main'))).toEqual(['changed a.xlsx']);
    expect(service.takeDownloads().join()).toContain('a.xlsx');
  });

  it('compares the contents of a Git repository, which may hold other files, if they have an entity tag', async () => {
    const { service, mirror } = await startMirrored('host/plan.git', FILES, {}, { etag: 'strong' });
    const found = await diffUpstream(settingsFor(service, mirror), 'host/plan.git/main');
    expect(found).toMatchObject({ by: 'contents', differences: [] });
  });

  it('shows targets not mirrored yet as new, and deleted ones as removed', async () => {
    const { service, mirror } = await startPair({}, { REPOSITORIES_EXCLUDE: 'New' });
    const gone = service.addRepository('Gone', { 'plan.xlsx': 'x' });
    const kept = service.addRepository('Kept', { 'plan.xlsx': 'x' });
    service.fork(kept, 'main', 'side');
    await mirror.pass();
    service.addRepository('New', { 'plan.xlsx': 'x' });
    service.removeRepository(gone);
    kept.branches.delete('side');
    const settings = settingsFor(service, mirror, { REPOSITORIES_EXCLUDE: 'New' });
    expect(lines(await diffUpstream(settings, 'New/main'))).toEqual(['added plan.xlsx']);
    for (const target of ['Gone/main', 'Kept/side']) {
      const found = await diffUpstream(settings, target);
      expect(lines(found)).toEqual(['removed plan.xlsx']);
      expect(found.after).toMatchObject({ place: 'nothing', files: 0 });
    }
    await expect(diffUpstream(settings, 'Nex/main')).rejects.toMatchObject({ code: 'target.unknown' });
  });

  it('compares any target of a directory that several instances share', async () => {
    const { service, mirror } = await startPair({}, { SHARD: '1/2' });
    const other = await MirrorHarness.open(service, { SHARD: '2/2' }, mirror.directory);
    const repositories = ['A', 'B', 'C', 'D'].map((name) => service.addRepository(name, FILES));
    await mirror.pass();
    await other.pass();
    const settings = settingsFor(service, mirror, { SHARD: '1/2' });
    for (const name of ['A', 'B', 'C', 'D'])
      expect(await diffUpstream(settings, `${name}/main`)).toMatchObject({ by: 'lists' });
    for (const each of repositories) service.write(each, 'main', 'a.xlsx', 'one more');
    for (const name of ['A', 'B', 'C', 'D'])
      expect(lines(await diffUpstream(settings, `${name}/main`))).toEqual(['changed a.xlsx']);
    await other.stop();
  });

  it('ends with 3 if the service is unreachable or refuses the key, and with 2 if its contents are refused', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', FILES);
    const temporary = await ownTemporaryFolder();
    const run = (settings: HarnessSettings) => runHere(['diff', 'Accounting/main', '--upstream'], settings);
    for (const wrong of [{ SERVICE_BASE_URL: 'http://127.0.0.1:1/api' }, { SERVICE_API_KEY: 'wrong' }])
      expect((await run(variables(service, mirror, wrong))).exitCode).toBe(3);
    expect((await run({ DIRECTORY: mirror.directory })).exitCode).toBe(2);
    expect((await runHere(['diff', 'A/main', '--upstream', '--at', '2026-01-01'])).exitCode).toBe(2);

    service.remove(repository, 'main', 'a.xlsx');
    const before = await stamps(mirror);
    const limits = {
      ARCHIVE_MAX_ENTRIES: String(CORPUS_LIMITS.maxEntries),
      ARCHIVE_MAX_UNPACKED_SIZE: '1GiB',
    };
    for (const wanted of ['archive.refused', 'archive.damaged']) {
      const hostile = hostileArchives().find(({ verdict }) => verdict === wanted);
      if (hostile === undefined) throw new Error(`no archive is for ${wanted}`);
      const { name, bytes } = hostile;
      service.faultContents({ kind: 'body', body: bytes, headers: { 'content-type': 'application/zip' } });
      const { exitCode, stdout } = await run(variables(service, mirror, limits));
      expect({ name, exitCode, stdout }).toEqual({ name, exitCode: 2, stdout: '' });
      expect(await readdir(temporary)).toEqual([]);
    }
    service.fault = null;
    vi.stubEnv('TMPDIR', join(temporary, 'missing'));
    const nowhere = await run(variables(service, mirror));
    expect(nowhere.exitCode).toBe(2);
    expect(nowhere.stderr).toContain(
      'name another folder in the variable TMPDIR (of the daemon, if one runs)',
    );
    expect(await stamps(mirror)).toEqual(before);
  });
});
