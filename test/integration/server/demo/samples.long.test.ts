import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { contentsPath, requestHeaders } from '../../../../src/lib/api/requests.ts';
import { compareWithGit } from '../../../../src/server/demo/compare.ts';
import { createSamples, type Samples } from '../../../../src/server/demo/samples.ts';
import { createWriter } from '../../../../src/server/demo/writer.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { readHeads } from '../../../../src/server/git/refs.ts';
import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { type GitService, KEY, startGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { unzip } from '../../../support/zip-reader.ts';

let root = '';
let samples: Samples;
let service: GitService;

const pathOf = (repository: string, branch: string): string =>
  join(root, 'mirror', repository, encodeURIComponent(branch));

/** Mirrors everything in the simplest way: all contents, unpacked. */
async function mirrorAll(): Promise<void> {
  const git = new Git();
  for (const repository of samples.registry.list()) {
    const heads = await readHeads(git, samples.registry.gitDirectory(repository.id));
    for (const branch of heads.keys()) {
      const contents = contentsPath(repository.id, undefined, branch);
      const response = await fetch(service.baseUrl + contents, { headers: requestHeaders('current', KEY) });
      for (const [path, content] of await unzip(await response.arrayBuffer())) {
        const target = join(pathOf(repository.full_name, branch), path);
        await mkdir(dirname(target), { recursive: true });
        await writeFile(target, content);
      }
    }
  }
}

type Shown = Awaited<ReturnType<typeof shown>>[number];

async function shown() {
  return (await service.rows()).map(({ integration, name, version }) => ({
    repository: integration,
    branch: version.branch,
    path: name.slice(1),
    commitId: version.id,
  }));
}

async function start(): Promise<void> {
  root = await temporaryFolder();
  samples = await createSamples(join(root, 'data'));
  service = await startGitService(samples.registry);
}

describe('the samples', () => {
  it('are repositories of both kinds with several branches', async () => {
    await start();
    expect(samples.registry.list().map(({ name, full_name, url }) => [name, full_name, url])).toEqual([
      ['Accounting', 'Accounting', null],
      ['Sales Europe', 'Sales Europe', null],
      ['forecast', 'git.example.com/planning/forecast.git', 'https://git.example.com/planning/forecast.git'],
    ]);
    const branches = new Set((await shown()).map(({ repository, branch }) => `${repository} ${branch}`));
    expect(branches).toContain('Accounting feature/q3');
    expect(branches.size).toBeGreaterThanOrEqual(5);
  });

  it('are not added to other data', async () => {
    root = await temporaryFolder();
    const other = await openRegistry(join(root, 'own'));
    await other.create('Own');
    await other.close();
    const { registry, areNew } = await createSamples(join(root, 'own'));
    expect([areNew, registry.list().map(({ name }) => name)]).toEqual([false, ['Own']]);
    await registry.close();
  });
});

it('the writer makes every kind of edit, each in one commit that the service shows immediately', async () => {
  await start();
  const makeEdit = createWriter(samples.registry);
  const rowsBut = (rows: readonly Shown[], edit: Pick<Shown, 'repository' | 'branch' | 'path'>): Shown[] =>
    rows.filter(
      (row) => row.repository !== edit.repository || row.branch !== edit.branch || row.path !== edit.path,
    );
  const kinds = new Set<string | undefined>();
  const branches = new Set<string>();
  let before = await shown();
  for (let turn = 0; turn < 12; turn += 1) {
    const edit = await makeEdit();
    const { repository, branch, path, commitId, summary } = edit;
    kinds.add(summary.split(' ')[0]);
    branches.add(`${repository} ${branch}`);
    const after = await shown();
    const rows = summary.startsWith('deleted') ? [] : [{ repository, branch, path, commitId }];
    expect(after.filter((row) => !rowsBut(after, edit).includes(row))).toEqual(rows);
    expect(rowsBut(after, edit)).toEqual(rowsBut(before, edit));
    before = after;
  }
  expect(kinds).toEqual(new Set(['changed', 'added', 'deleted']));
  expect(branches.size).toBe(6);
});

it('the comparison with Git finds no difference in an exact mirror, and every one in another', async () => {
  await start();
  await createWriter(samples.registry)();
  await mirrorAll();
  const { differences, ...sums } = await compareWithGit(samples.registry, pathOf);
  expect(differences).toEqual([]);
  expect(sums.targets).toBe(6);
  expect(sums.bytes).toBeGreaterThan(50_000);
  await appendFile(join(pathOf('Accounting', 'main'), 'README.md'), ' ');
  await rm(join(pathOf('Accounting', 'main'), 'Notes/empty.txt'));
  await writeFile(join(pathOf('Accounting', 'main'), 'Notes/extra.txt'), '');
  await rm(pathOf('Sales Europe', 'spring-prices'), { recursive: true });
  const found = (await compareWithGit(samples.registry, pathOf)).differences;
  expect(found.filter((line) => line.startsWith('Accounting')).sort()).toEqual([
    'Accounting, main: Notes/empty.txt is missing',
    'Accounting, main: Notes/extra.txt is not in Git',
    'Accounting, main: README.md has other bytes',
  ]);
  expect(found).toContain('Sales Europe, spring-prices: README.md is missing');
});
