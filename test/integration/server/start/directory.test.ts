import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { initialise } from '../../../../src/server/git/bare.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { readBranches } from '../../../../src/server/git/refs.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/repositories.ts';
import { prepareServeDirectory } from '../../../../src/server/start/directory.ts';
import { textsIn } from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';
const git = new Git();

let root = '';
let data = '';
let registry: Registry;

beforeEach(async () => {
  root = await temporaryFolder();
  data = join(root, 'data');
  registry = await openRegistry(data);
  onTestFinished(() => registry.close());
});

describe('the directory of a registry', () => {
  it('does not start empty after a loss of its index, and changes nothing then', async () => {
    await registry.create('Accounting');
    const [id = ''] = registry.list().map((row) => row.id);
    await mkdir(join(data, 'credentials'));
    await writeFile(join(data, 'credentials', id), 'username=u\npassword=p\n');
    await rename(join(data, 'repositories.json'), join(data, 'away'));
    await expect(openRegistry(data)).rejects.toMatchObject({
      code: 'directory.unusable',
      message: expect.stringContaining('holds repositories') as string,
    });
    expect(await readdir(join(data, 'credentials'))).toEqual([id]);
    expect(await readdir(join(data, 'repositories'))).toEqual([`${id}.git`]);
    await rename(join(data, 'away'), join(data, 'repositories.json'));
    expect((await openRegistry(data)).list()).toEqual(registry.list());
  });

  it('serves all others if its directory has an odd entry', async () => {
    const source = join(root, 'external.git');
    await initialise(git, source);
    const kept = await registry.create('A');
    const odd = await registry.create('B');
    const gone = await registry.connectSample(EXTERNAL_URL, source);
    await registry.close();
    for (const { id } of [odd, gone]) await rm(registry.gitDirectory(id), { recursive: true });
    await writeFile(registry.gitDirectory(odd.id), 'a file');
    const [rowless, stray] = [crypto.randomUUID(), crypto.randomUUID()];
    await mkdir(join(data, 'repositories', `${rowless}.git`));
    await mkdir(join(data, 'repositories', 'notes'));
    await mkdir(join(data, 'credentials', stray), { recursive: true });
    for (const name of [kept.id, crypto.randomUUID(), 'notes.txt'])
      await writeFile(join(data, 'credentials', name), 'x');
    const told: string[] = [];
    const again = await openRegistry(data, { tell: (line) => told.push(line) });
    onTestFinished(() => again.close());
    const lost = join(data, 'repositories', `${rowless}.git`);
    const faults = [
      `${lost} belongs to no repository in the list: it is kept, and not served.`,
      expect.stringMatching(
        `^B cannot be used: .*\\. Restore repositories/${odd.id}\\.git from the backup; if it is gone, an external repository is cloned again\\.$`,
      ),
      expect.stringMatching(`^${gone.full_name} cannot be used: .* is cloned again\\.$`),
    ];
    for (const fault of faults) expect(told).toContainEqual(fault);
    expect((await readdir(join(data, 'credentials'))).sort()).toEqual([kept.id, stray, 'notes.txt'].sort());
    expect(await readFile(registry.gitDirectory(odd.id), 'utf8')).toBe('a file');
    expect(await readBranches(git, again.gitDirectory(kept.id))).toMatchObject({ defaultBranch: 'main' });
    // A connected repository is cloned again.
    await again.fetches.fetch(gone.id);
    expect(await readBranches(git, again.gitDirectory(gone.id))).toMatchObject({ defaultBranch: 'main' });
  });

  it('clears away what ended programs left in the objects of a repository', async () => {
    const { id } = await registry.create('A');
    const objects = join(registry.gitDirectory(id), 'objects');
    const left = [
      'tmp_objdir-incoming-a1/pack/tmp_pack_x',
      'tmp_objdir-incoming-a1/ab/cd',
      'ab/tmp_obj_x',
      'pack/tmp_idx_x',
      'pack/.tmp-12-pack-x.pack',
      'info/commit-graphs/commit-graph-chain.lock',
    ];
    const whole = ['ab/cdef', 'info/packs', 'pack/pack-x.pack'];
    for (const path of [...left, ...whole]) {
      await mkdir(dirname(join(objects, path)), { recursive: true });
      await writeFile(join(objects, path), '');
    }
    await openRegistry(data);
    expect(Object.keys(await textsIn(objects)).sort()).toEqual(whole);
  });
});

it.each(['/proc/none', '/proc/none/below'])('a directory at %s is refused', async (directory) => {
  await expect(prepareServeDirectory(directory)).rejects.toMatchObject({ code: 'directory.unusable' });
});
