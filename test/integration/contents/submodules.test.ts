import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, it } from 'vitest';

import { buildZip, type ZipEntry } from '../../support/zip-builder.ts';
import { startCommands, type MirrorCommands } from '../../support/mirror-commands.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const execute = promisify(execFile);

/** A service that gives an archive for its one repository. */
async function serviceOf(archive: Buffer): Promise<MirrorCommands> {
  const synced = await startCommands();
  synced.service.addRepository('Accounting', { 'a.xlsx': 'a' });
  synced.service.fault = (path) => (/\/contents(?:\?|$)/.test(path) ? { kind: 'body', body: archive } : null);
  return synced;
}

async function skippedIn({ directory }: MirrorCommands): Promise<unknown> {
  const text = await readFile(join(directory, 'manifests/Accounting/main.json'), 'utf8');
  return (JSON.parse(text) as { skipped: unknown }).skipped;
}

it("the submodules of Git's own archive are named as left out", async () => {
  const folder = await temporaryFolder();
  const [inner, outer] = [join(folder, 'inner'), join(folder, 'outer')];
  const git = async (at: string, ...args: readonly string[]): Promise<void> => {
    const user = ['-c', 'user.name=A', '-c', 'user.email=a@example.com', '-c', 'protocol.file.allow=always'];
    await execute('git', ['-C', at, ...user, ...args]);
  };
  for (const at of [inner, outer]) {
    await mkdir(at);
    await git(at, 'init', '--quiet', '--initial-branch=main');
    await writeFile(join(at, 'a.xlsx'), 'a');
    await git(at, 'add', '.');
    await git(at, 'commit', '--quiet', '--message=first');
  }
  for (const path of ['lib/inner', 'with "quotes" # and ä'])
    await git(outer, 'submodule', '--quiet', 'add', inner, path);
  await git(outer, 'commit', '--quiet', '--message=submodules');
  const zip = join(folder, 'outer.zip');
  await git(outer, 'archive', '--prefix=outer/', `--output=${zip}`, 'HEAD');

  const synced = await serviceOf(await readFile(zip));
  const { exitCode, stderr } = await synced.run('sync');
  expect({ exitCode, stderr }).toEqual({
    exitCode: 0,
    stderr: expect.stringMatching(/left out 2 entries .*submodules/) as string,
  });
  expect(await skippedIn(synced)).toEqual([
    { path: 'lib/inner', reason: 'submodule' },
    { path: 'with "quotes" # and ä', reason: 'submodule' },
  ]);
  expect(await synced.run('verify')).toMatchObject({ exitCode: 0 });
});

const MODULES = `# [submodule "comment"] path = comment
[submodule "plain"]
\tpath = plain ; a comment
\turl = ../path = url
[SUBMODULE "quoted"] path = "quo\\"ted"
[submodule "present"]
\tpath = present/
[submodule "link"]
\tpath = link
[submodule "out"]
\tpath = ../out
[submodule "plain again"]
\tpath = plain
`;

it.each<[string, readonly ZipEntry[]]>([
  ['with entries for folders', [{ name: 'plain/' }, { name: 'quo"ted/' }, { name: 'empty/' }]],
  ['without entries for folders', []],
])(
  'a submodule is left out that .gitmodules names, if there is nothing in its place, and an empty folder is not one: %s',
  async (_what, folders) => {
    const synced = await serviceOf(
      buildZip([
        { name: '.gitmodules', data: MODULES },
        { name: 'a.xlsx', data: 'a' },
        { name: 'present/b.xlsx', data: 'b' },
        { name: 'link', data: 'a.xlsx', mode: 0o120777 },
        ...folders,
      ]),
    );
    expect(await synced.run('sync')).toMatchObject({ exitCode: 0 });
    expect(await skippedIn(synced)).toEqual([
      { path: 'link', reason: 'symbolic-link' },
      { path: 'plain', reason: 'submodule' },
      { path: 'quo"ted', reason: 'submodule' },
    ]);
  },
);

it('a long line of .gitmodules keeps no pass busy', async () => {
  const line = `\tpath = a${' '.repeat(500_000)}b\n`;
  const synced = await serviceOf(
    buildZip([
      { name: '.gitmodules', data: `[submodule "long"]\n${line}[submodule "short"]\n\tpath = short\n` },
      { name: 'a.xlsx', data: 'a' },
    ]),
  );
  expect(await synced.run('sync')).toMatchObject({ exitCode: 0 });
  expect(await skippedIn(synced)).toEqual([{ path: 'short', reason: 'submodule' }]);
});
