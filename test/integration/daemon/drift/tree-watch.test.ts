import { spawnSync } from 'node:child_process';
import { chmod, mkdir, open, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { TreeWatch } from '../../../../src/daemon/drift/tree-watch.ts';
import type { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { bindNativeCalls } from '../../../../src/lib/native/file-calls.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const WATCH_SOURCE = fileURLToPath(new URL('../../../../src/daemon/drift/tree-watch.ts', import.meta.url));

/** Watches the folder `mirror` of a directory until the running test ends. */
function watchTrees(directory: string) {
  const hints = new Set<string>();
  const errors: MirrorError[] = [];
  const watch = new TreeWatch(
    directory,
    ['mirror'],
    (path) => hints.add(relative('mirror', path)),
    (error) => errors.push(error),
  );
  onTestFinished(() => watch.close());
  return { watch, hints, errors };
}

/** A watch on a planted tree. */
async function watched() {
  const directory = await temporaryFolder();
  const root = join(directory, 'mirror');
  await plant(join(root, 'Accounting/main'));
  const { watch, hints, errors } = watchTrees(directory);
  await watch.ready;
  return {
    root,
    errors,
    hints,
    /** Waits until something below a path was hinted at, and forgets all hints. */
    hinted: async (path: string) => {
      const isHinted = (): boolean => [...hints].some((each) => `${each}/`.startsWith(`${path}/`));
      await vi.waitFor(() => expect(isHinted(), [...hints].join(' ')).toBe(true), { timeout: 60_000 });
      hints.clear();
    },
    /** Expects no hint for a while. */
    silent: async () => {
      await pause(200);
      expect([...hints]).toStrictEqual([]);
    },
    /** Waits until nothing more comes, and forgets all hints. */
    calm: async () => {
      for (let before = -1; before !== hints.size; await pause(150)) before = hints.size;
      hints.clear();
    },
  };
}

async function plant(tree: string): Promise<void> {
  await mkdir(join(tree, 'deep/er'), { recursive: true });
  await mkdir(join(tree, 'main'));
  for (const name of ['a.xlsx', 'deep/b.xlsx', 'deep/er/c~', 'main/main'])
    await writeFile(join(tree, name), name);
}

async function overwriteByte(path: string): Promise<void> {
  const handle = await open(path, 'r+');
  await handle.write('#', 0);
  await handle.close();
}

/** Changes of a tree, each with the path at which a hint is expected. */
const CHANGES: readonly (readonly [string, string, (tree: string) => Promise<unknown>])[] = [
  ['bytes in place', 'deep/b.xlsx', (tree) => overwriteByte(join(tree, 'deep/b.xlsx'))],
  ['bytes of an editor’s copy', 'deep/er/c~', (tree) => overwriteByte(join(tree, 'deep/er/c~'))],
  ['bytes of a file named like its folder', 'main', (tree) => overwriteByte(join(tree, 'main/main'))],
  ['mode', 'deep/er/c~', (tree) => chmod(join(tree, 'deep/er/c~'), 0o600)],
  ['mode of a folder', 'deep', (tree) => chmod(join(tree, 'deep'), 0o700)],
  ['a deleted file', 'deep/b.xlsx', (tree) => rm(join(tree, 'deep/b.xlsx'))],
  ['a deleted folder', 'deep', (tree) => rm(join(tree, 'deep'), { recursive: true })],
  ['a new file', 'deep/er/new', (tree) => writeFile(join(tree, 'deep/er/new'), '')],
  ['a renamed file', 'deep/d.xlsx', (tree) => rename(join(tree, 'a.xlsx'), join(tree, 'deep/d.xlsx'))],
  ['a renamed folder', 'other', (tree) => rename(join(tree, 'deep'), join(tree, 'other'))],
  [
    'a file in place of a folder',
    'deep',
    async (tree) => {
      await rm(join(tree, 'deep'), { recursive: true });
      await writeFile(join(tree, 'deep'), '');
    },
  ],
];

describe('the watch on published trees', () => {
  it.each(CHANGES)('hints at a change: %s', async (_name, at, change) => {
    const { root, hinted, errors } = await watched();
    await change(join(root, 'Accounting/main'));
    await hinted(`Accounting/main/${at}`);
    expect(errors).toStrictEqual([]);
  });

  it('says nothing while trees are only read', async () => {
    const { root, silent } = await watched();
    await readdir(root, { recursive: true });
    await silent();
  });

  it('hints at every folder that appears, as files may be in it before it can be watched', async () => {
    const { root, hints } = await watched();
    for (let i = 0; i < 50; i += 1) {
      const folder = join(root, `Accounting/main/new ${i}`);
      await mkdir(folder);
      await writeFile(join(folder, 'f'), '');
    }
    const expected = Array.from({ length: 50 }, (_, i) => `Accounting/main/new ${i}`);
    await vi.waitFor(() => expect(expected.filter((each) => !hints.has(each))).toStrictEqual([]));
  });

  it('follows the tree after each exchange', async () => {
    const { root, hinted, calm, silent } = await watched();
    const { exchange } = bindNativeCalls();
    const staged = join(root, '../staged');
    const tree = join(root, 'Accounting/main');
    for (let round = 0; round < 5; round += 1) {
      await rm(staged, { recursive: true, force: true });
      await plant(staged);
      exchange(staged, tree);
      await hinted('Accounting/main');
      await calm();
      await overwriteByte(join(tree, 'deep/er/c~'));
      await hinted('Accounting/main/deep/er/c~');
      await mkdir(join(tree, `deep/round ${round}`));
      await hinted(`Accounting/main/deep/round ${round}`);
      await calm();
      await overwriteByte(join(staged, 'deep/er/c~'));
      await silent();
    }
  });

  it('follows the tree if exchanges come faster than checks', async () => {
    const { root, hinted, calm } = await watched();
    const { exchange } = bindNativeCalls();
    const tree = join(root, 'Accounting/main');
    const staged = await Promise.all(
      Array.from({ length: 7 }, async (_, i) => {
        await plant(join(root, `../staged ${i}`));
        return join(root, `../staged ${i}`);
      }),
    );
    for (const each of [...staged, ...staged]) exchange(each, tree);
    await calm();
    await overwriteByte(join(tree, 'deep/er/c~'));
    await hinted('Accounting/main/deep/er/c~');
  });

  it('ignores other files of the directory, and watches a folder that appears there or is replaced', async () => {
    const { root, hinted, calm, silent } = await watched();
    await plant(join(root, '../other/main'));
    await silent();
    for (let round = 0; round < 2; round += 1) {
      await rename(root, join(root, `../before ${round}`));
      await plant(join(root, 'Planning/main'));
      await hinted('Planning/main');
      await calm();
      await overwriteByte(join(root, 'Planning/main/deep/er/c~'));
      await hinted('Planning/main/deep/er/c~');
    }
    await overwriteByte(join(root, '../before 0/Accounting/main/a.xlsx'));
    await silent();
  });

  it('does not follow a link to a folder', async () => {
    const { root, calm, silent } = await watched();
    await plant(join(root, '../other'));
    await symlink('../../other', join(root, 'Accounting/link'));
    await calm();
    await overwriteByte(join(root, '../other/a.xlsx'));
    await silent();
  });

  it('reports nothing after it was closed', async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, 'mirror'));
    const { watch, hints } = watchTrees(root);
    await watch.ready;
    await watch.close();
    await writeFile(join(root, 'mirror/late'), '');
    await pause(200);
    expect([...hints]).toStrictEqual([]);
  });

  it('can be closed before everything is watched', async () => {
    const root = await temporaryFolder();
    for (let i = 0; i < 500; i += 1) await mkdir(join(root, `mirror/r${i}/main`), { recursive: true });
    const { watch, errors } = watchTrees(root);
    await watch.close();
    await watch.ready;
    expect(errors).toStrictEqual([]);
  });

  it('reports that nothing is watched if the directory is missing', async () => {
    const { watch, errors } = watchTrees(join(await temporaryFolder(), 'gone'));
    await watch.ready;
    expect(errors).toHaveLength(1);
    expect(errors[0]?.message).toMatch(
      /^Changes of some published trees are not watched: the folder .*gone is missing\.$/,
    );
  });
});

/** Watches a folder in a user namespace of its own that may have only so many watches and instances. */
function watchWithin(limits: { watches: number; instances: number }, root: string): string {
  const script =
    `const { TreeWatch } = await import(${JSON.stringify(WATCH_SOURCE)});` +
    `const errors = []; const hints = [];` +
    `const watch = new TreeWatch(${JSON.stringify(root)}, ['mirror'], (path) => hints.push(path), ({ code, message, hint }) => errors.push({ code, message, hint }));` +
    `await watch.ready;` +
    `(await import('node:fs')).writeFileSync(${JSON.stringify(join(root, 'mirror/probe'))}, '');` +
    `setTimeout(async () => { await watch.close(); console.log(JSON.stringify({ errors, hints })); }, 300);`;
  const { stdout } = spawnSync(
    'unshare',
    [
      '--user',
      '--map-root-user',
      'sh',
      '-c',
      `echo ${limits.watches} > /proc/sys/user/max_inotify_watches && echo ${limits.instances} > /proc/sys/user/max_inotify_instances && exec "$@"`,
      'sh',
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ],
    { encoding: 'utf8' },
  );
  return stdout;
}

/** Whether this machine lets a program have limits of its own. */
const canLimit =
  spawnSync('unshare', ['--user', '--map-root-user', 'test', '-w', '/proc/sys/user/max_inotify_watches'])
    .status === 0;

describe.runIf(canLimit)('the watch at a limit of the system', () => {
  it.each([
    { name: 'watches', limits: { watches: 5, instances: 100 }, said: 'fs.inotify.max_user_watches' },
    { name: 'instances', limits: { watches: 1000, instances: 0 }, said: 'fs.inotify.max_user_instances' },
  ])('reports once that it has no $name, and ends', async ({ limits, said }) => {
    const root = await temporaryFolder();
    for (let i = 0; i < 40; i += 1) await mkdir(join(root, `mirror/r${i}/main/deep`), { recursive: true });
    const { errors, hints } = JSON.parse(watchWithin(limits, root)) as {
      errors: MirrorError[];
      hints: string[];
    };
    expect(errors).toHaveLength(1);
    expect(errors[0]?.message).toMatch(/^Changes of published trees are not watched: /);
    expect(errors[0]?.hint).toContain(said);
    expect(hints).toStrictEqual([]);
  });
});
