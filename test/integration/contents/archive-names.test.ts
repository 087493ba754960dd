import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { buildZip, type ZipEntry } from '../../support/zip-builder.ts';
import { startCommands, type MirrorCommands } from '../../support/mirror-commands.ts';

/** A service whose one repository has these entries in its archive. */
async function serviceWith(entries: readonly ZipEntry[]): Promise<MirrorCommands> {
  const synced = await startCommands();
  synced.service.addRepository('Accounting', { 'a.xlsx': 'a', 'x/b.xlsx': 'b' });
  const body = buildZip(entries);
  synced.service.fault = (path) => (/\/contents(?:\?|$)/.test(path) ? { kind: 'body', body } : null);
  return synced;
}

it('an archive whose names begin with ./ is mirrored under the names without it', async () => {
  const { run, tree } = await serviceWith([
    { name: './', mode: 0o040755 },
    { name: './a.xlsx', data: 'a' },
    { name: './x/', mode: 0o040755 },
    { name: './x/./b.xlsx', data: 'b' },
  ]);
  expect(await run('sync')).toMatchObject({ exitCode: 0 });
  expect((await readdir(tree('Accounting/main'))).sort()).toEqual(['a.xlsx', 'x']);
  expect(await readFile(join(tree('Accounting/main'), 'x/b.xlsx'), 'utf8')).toBe('b');
  expect(await run('verify')).toMatchObject({ exitCode: 0 });
});

it.each([
  ['leads up', './../a.xlsx', 'leads to another folder'],
  ['is absolute', './/a.xlsx', 'absolute path'],
  ['becomes the name of another entry', './a.xlsx', 'occurs twice'],
])('an archive with a name that without its ./ %s is refused', async (_what, name, fault) => {
  const { run } = await serviceWith([
    { name: 'a.xlsx', data: 'a' },
    { name, data: 'b' },
  ]);
  const { exitCode, stderr } = await run('sync');
  expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining(fault) as string });
});
