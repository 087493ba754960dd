import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { expect, it, vi } from 'vitest';

import { startFake } from '../support/started-fake.ts';
import { codeBlocks } from '../support/manual-commands.ts';
import { type ObjectStore, startObjectStore } from '../support/object-store.ts';
import { MAIN } from '../support/built.ts';
import { hasProgram, run, start, variablesOf } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const execute = promisify(execFile);

const SECTION = ['hooks', 'A copy in an object store'] as const;
const [RCLONE = ''] = codeBlocks('ini', ...SECTION);
const [SCRIPT = ''] = codeBlocks('sh', ...SECTION);
const [SETTINGS = ''] = codeBlocks('yaml', ...SECTION);

const missing = hasProgram('rclone') ? '' : ' (skipped: rclone is not on this machine)';

const WAIT = { timeout: 60_000, interval: 200 };

/** The differences between a manifest in the bucket and its files, a line each. */
function differences({ objects }: ObjectStore, key: string): string[] {
  const target = key.slice('manifests/'.length, -'.json'.length);
  const { files } = JSON.parse(String(objects.get(key)?.bytes)) as {
    files: { path: string; sha256: string }[];
  };
  return files.flatMap(({ path, sha256 }) => {
    const bytes = objects.get(`mirror/${target}/${path}`)?.bytes;
    return bytes !== undefined && createHash('sha256').update(bytes).digest('hex') === sha256 ? [] : [path];
  });
}

/** All files below two folders of a directory, by path. */
async function contentsOf(directory: string): Promise<Record<string, string>> {
  const contents: Record<string, string> = {};
  for (const folder of ['mirror', 'manifests'])
    for (const entry of await readdir(join(directory, folder), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) contents[path.slice(directory.length + 1)] = await readFile(path, 'base64');
    }
  return contents;
}

it.skipIf(missing !== '')(
  `the copy in an object store that the manual makes is whole at each manifest, and follows everything${missing}`,
  async () => {
    const torn: string[] = [];
    let manifests = 0;
    const store = await startObjectStore((store, key) => {
      if (!key.startsWith('manifests/')) return;
      manifests += 1;
      torn.push(...differences(store, key).map((path) => `${key}: ${path}`));
    });
    const service = await startFake();
    const odd = ['plan.xlsx', 'a/b [x] {y} *?.xlsx', 'ü & <"quotes">.xlsx', "it's: 100%.xlsx", 'kept.csv'];
    const names = [...odd, ...Array.from({ length: 30 }, (_, index) => `many/${index}.xlsx`)];
    const filled = (edit: number) =>
      Object.fromEntries(names.map((name) => [name, `edit ${edit} of ${name}`]));
    for (const name of ['Accounting', 'Sales', 'Quality & more']) service.addRepository(name, filled(0));

    const folder = await temporaryFolder();
    const directory = join(folder, 'mirrored');
    const moved = (text: string): string =>
      text
        .replaceAll('/etc/workbook-mirror', folder)
        .replaceAll('/usr/local/bin', join(folder, 'bin'))
        .replace('https://objects.example.com', `http://${store.address}`);
    await mkdir(join(folder, 'bin'));
    for (const [name, text] of [
      ['to-object-store', moved(SCRIPT)],
      [
        'workbook-mirror',
        `#!/bin/sh\nWORKBOOK_MIRROR_DIRECTORY='${directory}' exec '${process.execPath}' '${MAIN}' "$@"\n`,
      ],
    ] as const) {
      await writeFile(join(folder, 'bin', name), text);
      await chmod(join(folder, 'bin', name), 0o755);
    }
    await writeFile(join(folder, 'rclone.conf'), moved(RCLONE).replaceAll('…', 'key'));
    await writeFile(join(folder, 'config.yaml'), moved(SETTINGS));
    const guards = { GUARD_TARGETS: 'off', GUARD_FILES: 'off' };
    const own = { ...service.settingsFor(directory), ...guards, SCHEDULE: '* * * * * *' };
    const settings = variablesOf(own);
    const daemon = start(['run', '--config', join(folder, 'config.yaml')], settings);
    const copied = (): Record<string, string> =>
      Object.fromEntries([...store.objects].map(([key, { bytes }]) => [key, bytes.toString('base64')]));
    const follows = () => vi.waitFor(async () => expect(copied()).toEqual(await contentsOf(directory)), WAIT);
    await vi.waitFor(() => expect(manifests).toBeGreaterThanOrEqual(3), WAIT);

    // Without a pause, so that there are states in between, until several copies were made.
    const isCopiedOften = (): boolean => manifests > 6;
    for (let edit = 1; edit <= 30 || !isCopiedOften(); edit += 1) {
      for (const repository of service.repositories)
        for (const name of edit % 3 === 0 ? names : names.slice(0, 1))
          service.write(repository, 'main', name, `edit ${edit} of ${name}`);
      await sleep(300);
    }
    expect(torn).toEqual([]);
    service.remove(service.named('Accounting'), 'main', 'many/3.xlsx');
    service.renameRepository(service.named('Accounting'), 'Books');
    service.removeRepository(service.named('Sales'));
    const mirrored = (): Promise<string[]> => readdir(join(directory, 'mirror'));
    await vi.waitFor(async () => expect(await mirrored()).toEqual(['Books', 'Quality & more']), WAIT);
    await follows();
    expect(torn).toEqual([]);
    expect((await daemon.stop()).exitCode).toBe(0);

    // And back again.
    const config = { env: { PATH: process.env['PATH'], RCLONE_CONFIG: join(folder, 'rclone.conf') } };
    const back = join(folder, 'back');
    await execute('rclone', ['copy', 'store:workbooks', back], config);
    expect(await run(['verify', '--directory', back])).toMatchObject({ exitCode: 0 });
  },
);
