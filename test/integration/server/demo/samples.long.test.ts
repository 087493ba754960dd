import { appendFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createSamples, type Samples } from '../../../../src/server/demo/samples.ts';
import { createWriter } from '../../../../src/server/demo/writer.ts';
import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { startEmbedded } from '../../../support/embedded.ts';
import { type GitService, startGitService } from '../../../support/git-service.ts';
import { runWith } from '../../../support/in-process.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let root = '';
let samples: Samples;
let service: GitService;

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
  const { edit, directory, settings, differences } = await startEmbedded();
  await edit();
  expect((await runWith(['sync'], settings)).exitCode).toBe(0);
  expect(await differences()).toEqual([]);
  const tree = join(directory, 'mirror/Accounting/main');
  await appendFile(join(tree, 'README.md'), ' ');
  await rm(join(tree, 'Notes/empty.txt'));
  await writeFile(join(tree, 'Notes/extra.txt'), '');
  await rm(join(directory, 'mirror/Sales Europe/spring-prices'), { recursive: true });
  const found = await differences();
  expect(found.filter((line) => line.startsWith('Accounting')).sort()).toEqual([
    'Accounting, main: Notes/empty.txt is missing',
    'Accounting, main: Notes/extra.txt is not in Git',
    'Accounting, main: README.md has other bytes',
  ]);
  expect(found).toContain('Sales Europe, spring-prices: README.md is missing');
});
