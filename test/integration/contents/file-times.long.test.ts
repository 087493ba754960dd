import { execFile, spawnSync } from 'node:child_process';
import { appendFile, lstat, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { LAST_VERIFIED_HEADER } from '../../../src/lib/api/requests.ts';
import type { FakeKnobs } from '../../support/fake-service.ts';
import { buildZip } from '../../support/zip-builder.ts';
import { startCommands } from '../../support/mirror-commands.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const execute = promisify(execFile);

/** A workbook that holds a text, of a size that does not depend on it. */
function workbook(text: string): Buffer {
  return buildZip([{ name: '[Content_Types].xml', data: text.padEnd(100) }]);
}

/** A repository of workbooks and a text. */
async function mirrored(knobs: Partial<FakeKnobs> = {}) {
  const synced = await startCommands(knobs);
  const repository = synced.service.addRepository('Accounting', { 'notes.txt': 'notes' });
  for (const path of ['a.xlsx', 'b.xlsx', 'c.xlsx'])
    synced.service.write(repository, 'main', path, workbook('first'));
  return { ...synced, repository };
}

describe('a time that not every file system can keep', () => {
  it.each(['1969-12-31T23:59:59+00:00', '2106-02-07T06:28:16+00:00', '+010000-01-01T00:00:00+00:00'])(
    '%s leaves a target that is as its manifest says, from the archive and pulled by its path',
    async (at) => {
      const { service, repository, run } = await mirrored();
      service.version(repository, 'main', 'a.xlsx').createdAt = at;
      for (const change of [null, 'second']) {
        if (change !== null) service.write(repository, 'main', 'a.xlsx', workbook(change));
        service.version(repository, 'main', 'a.xlsx').createdAt = at;
        expect(await run('sync')).toMatchObject({ exitCode: 0 });
        expect(await run('verify')).toMatchObject({ exitCode: 0 });
        expect(await run('status')).toMatchObject({ exitCode: 0 });
      }
    },
  );

  it('is repaired where an earlier version wrote it into a manifest', async () => {
    const { directory, run } = await mirrored();
    await run('sync');
    const manifest = join(directory, 'manifests/Accounting/main.json');
    const text = await readFile(manifest, 'utf8');
    await writeFile(manifest, text.replace(/"mtime": "[^"]*"/, '"mtime": "0001-01-01T00:00:00.000Z"'));
    expect(await run('verify')).toMatchObject({ exitCode: 1 });
    expect(await run('verify', '--repair')).toMatchObject({ exitCode: 0 });
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });
});

/** Gives workbooks another text under the same time, and mirrors that: more than one come with the whole archive. */
async function rewrite(
  { service, repository, run }: Awaited<ReturnType<typeof mirrored>>,
  paths: readonly string[],
  text: string,
): Promise<void> {
  for (const path of paths) {
    service.write(repository, 'main', path, workbook(text));
    service.version(repository, 'main', path).createdAt = '2026-03-04T05:06:07+00:00';
  }
  expect(await run('sync')).toMatchObject({ exitCode: 0 });
}

it('a repaired file keeps the time that it has for its bytes', async () => {
  const synced = await mirrored();
  for (const text of ['v1', 'v2']) await rewrite(synced, ['a.xlsx'], text);
  const file = join(synced.tree('Accounting/main'), 'a.xlsx');
  const before = await lstat(file);
  await appendFile(file, 'damage');
  expect(await synced.run('verify', '--repair')).toMatchObject({ exitCode: 0 });
  const { mtimeMs, size } = await lstat(file);
  expect({ mtimeMs, size }).toEqual({ mtimeMs: before.mtimeMs, size: before.size });
});

const REPLICA = { [LAST_VERIFIED_HEADER]: new Date().toUTCString() };

const hasRsync = spawnSync('rsync', ['--version']).error === undefined;

describe.skipIf(!hasRsync)(
  hasRsync ? 'a copy by rsync' : 'a copy by rsync (skipped: rsync is not on this machine)',
  () => {
    it.each<[string, Partial<FakeKnobs>, readonly string[], readonly string[]]>([
      ['a workbook pulled by its path', {}, ['a.xlsx'], ['v1', 'v2', 'v1', 'v2', 'v3']],
      ['workbooks from the archive', {}, ['a.xlsx', 'b.xlsx'], ['v1', 'v2', 'v1', 'v2', 'v3']],
      ['files with the time of the archive', { v1: '404' }, ['a.xlsx'], ['v1', 'v2', 'v1', 'v2', 'v3']],
      [
        'files of a replica, which have its times',
        { v1: '404', headers: REPLICA },
        ['a.xlsx'],
        ['v1', 'v2', 'v1'],
      ],
      ['a state that was never copied', {}, ['a.xlsx'], ['v1', 'v2 uncopied', 'v3', 'v4 uncopied', 'v1']],
    ])('is exact after history was rewritten with its dates kept: %s', async (_what, knobs, paths, texts) => {
      const synced = await mirrored(knobs);
      const copy = await temporaryFolder();
      const file = join(synced.tree(knobs.v1 === '404' ? 'Accounting/HEAD' : 'Accounting/main'), 'a.xlsx');
      for (const text of texts) {
        await rewrite(synced, paths, text);
        const { ino } = await lstat(file);
        expect(await synced.run('sync')).toMatchObject({ exitCode: 0 });
        expect((await lstat(file)).ino).toBe(ino);
        if (text.endsWith('uncopied')) continue;
        await execute('rsync', ['-a', '--exclude=/.workbook-mirror', `${synced.directory}/`, `${copy}/`]);
        const { stdout } = await execute('diff', ['-r', synced.directory, copy, '-x', '.workbook-mirror']);
        expect(stdout).toBe('');
        expect(await synced.run('verify', '--directory', copy)).toMatchObject({ exitCode: 0 });
      }
    });
  },
);
