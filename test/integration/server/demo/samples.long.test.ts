import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fromBufferPromise } from 'yauzl';

import { contentsPath, requestHeaders } from '../../../../src/lib/api/requests.ts';
import { pageSchema, workbookSchema } from '../../../../src/lib/api/schemas.ts';
import { compareWithGit, type PathOf } from '../../../../src/server/demo/compare.ts';
import { createSamples, type Samples } from '../../../../src/server/demo/samples.ts';
import { createWriter, type Edit } from '../../../../src/server/demo/writer.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { readHeads } from '../../../../src/server/git/refs.ts';
import { createGitService, type GitService } from '../../../support/git-service.ts';

const KEY = 'key';
const TOKEN = 'token';

let root = '';
let samples: Samples;
let service: GitService;
let baseUrl = '';

const pathOf: PathOf = (repository, branch) => join(repository.full_name, encodeURIComponent(branch));

async function unzip(zip: Buffer, write: (path: string, content: Buffer) => Promise<void>): Promise<void> {
  const archive = await fromBufferPromise(zip);
  for await (const entry of archive.eachEntry()) {
    if (entry.fileName.endsWith('/')) continue;
    const chunks: Buffer[] = [];
    const stream = await archive.openReadStreamPromise(entry);
    for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
    await write(entry.fileName, Buffer.concat(chunks));
  }
}

/** Mirrors everything in the simplest way: all contents, unpacked. */
async function mirrorAll(directory: string): Promise<void> {
  const git = new Git();
  for (const repository of samples.registry.list()) {
    const heads = await readHeads(git, samples.registry.gitDirectory(repository.id));
    for (const branch of heads.keys()) {
      const path = contentsPath(repository.id, undefined, branch);
      const response = await fetch(baseUrl + path, { headers: requestHeaders('current', KEY) });
      await unzip(Buffer.from(await response.arrayBuffer()), async (path, content) => {
        const target = join(directory, pathOf(repository, branch), path);
        await mkdir(dirname(target), { recursive: true });
        await writeFile(target, content);
      });
    }
  }
}

interface Shown {
  readonly repository: string;
  readonly branch: string;
  readonly path: string;
  readonly commitId: string;
}

async function shown(): Promise<Shown[]> {
  const headers = requestHeaders('v1', TOKEN);
  const response = await fetch(`${baseUrl}/v1/workbooks?page_size=1000`, { headers });
  const page = pageSchema.parse(await response.json());
  expect(page.next).toBeNull();
  return page.results.map((row) => {
    const { integration, name, version } = workbookSchema.parse(row);
    return { repository: integration, branch: version.branch, path: name.slice(1), commitId: version.id };
  });
}

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'samples-test-'));
  samples = await createSamples(join(root, 'data'));
  service = createGitService({ registry: samples.registry, apiKey: KEY, apiToken: TOKEN });
  ({ baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 }));
});

afterEach(async () => {
  await service.close();
  await samples.registry.close();
  await rm(root, { recursive: true, force: true });
});

describe('the samples', () => {
  it('are repositories of both kinds with several branches', async () => {
    expect(samples.registry.list().map(({ name, full_name, url }) => [name, full_name, url])).toEqual([
      ['Accounting', 'Accounting', null],
      ['Sales Europe', 'Sales Europe', null],
      ['forecast', 'git.example.com/planning/forecast.git', 'https://git.example.com/planning/forecast.git'],
    ]);
    const branches = new Set((await shown()).map(({ repository, branch }) => `${repository} ${branch}`));
    expect(branches).toContain('Accounting feature/q3');
    expect(branches.size).toBeGreaterThanOrEqual(5);
  });

  it('are used again where they are', async () => {
    const again = await createSamples(join(root, 'data'));
    expect(again.registry.list()).toEqual(samples.registry.list());
    await again.registry.close();
  });

  it('are left alone where there is anything else, and completed where they were interrupted', async () => {
    const directory = join(root, 'other');
    const none = await createSamples(directory, {}, AbortSignal.abort());
    expect([none.outcome, none.registry.list()]).toEqual(['interrupted', []]);
    // As a power cut leaves it between a repository and its commits.
    const { id } = await none.registry.create('Accounting');
    await none.registry.close();
    const whole = await createSamples(directory);
    expect(whole.outcome).toBe('made');
    expect(whole.registry.list().map(({ name }) => name)).toEqual(['Accounting', 'Sales Europe', 'forecast']);
    expect(whole.registry.list()[0]?.id).toBe(id);
    const git = new Git();
    expect((await readHeads(git, whole.registry.gitDirectory(id))).size).toBeGreaterThan(1);
    await whole.registry.close();
    const again = await createSamples(directory);
    expect([again.outcome, again.registry.list().length]).toEqual(['left', 3]);
    await again.registry.close();
  });

  it('hold workbooks of several sheets with formulas', async () => {
    const response = await fetch(baseUrl + contentsPath('Accounting', 'Budget 2026.xlsx'), {
      headers: requestHeaders('current', KEY),
    });
    const parts = new Map<string, string>();
    await unzip(Buffer.from(await response.arrayBuffer()), async (path, content) => {
      parts.set(path, content.toString('utf8'));
    });
    expect(parts.get('xl/workbook.xml')?.match(/<sheet /g)).toHaveLength(3);
    expect([...parts.values()].join('')).toMatch(/<f>SUM\(B2:M2\)<\/f>/);
  });
});

describe('the writer', () => {
  it('makes every kind of edit, each in one commit that the service shows at once', async () => {
    const writer = createWriter(samples);
    const first = await shown();
    const edits: Edit[] = [];
    let before = first;
    for (let turn = 0; turn < 36; turn += 1) {
      const edit = await writer.edit();
      edits.push(edit);
      const after = await shown();
      const isThere = (rows: readonly Shown[], commitId?: string): string[] =>
        rows
          .filter((row) => row.repository === edit.repository && row.branch === edit.branch)
          .filter(
            (row) => edit.paths.includes(row.path) && (commitId === undefined || row.commitId === commitId),
          )
          .map(({ path }) => path);
      // What the edit left of its workbooks has its version, and nothing else has changed.
      expect(isThere(after, edit.commitId)).toEqual(isThere(after));
      const others = (rows: readonly Shown[]): Shown[] =>
        rows.filter(
          (row) =>
            row.repository !== edit.repository ||
            row.branch !== edit.branch ||
            !edit.paths.includes(row.path),
        );
      expect(others(after)).toEqual(others(before));
      expect(after).not.toEqual(before);
      before = after;
    }
    const kinds = new Set(edits.map(({ summary }) => summary.split(' ')[0]));
    expect(kinds).toEqual(new Set(['changed', 'added', 'renamed', 'deleted']));
    expect(edits.some(({ paths }) => paths.length === 2 && paths.some((path) => path.endsWith('.txt')))).toBe(
      true,
    );
    expect(
      new Set(edits.map(({ repository, branch }) => `${repository} ${branch}`)).size,
    ).toBeGreaterThanOrEqual(5);
    const branches = new Set(first.map(({ repository, branch }) => `${repository} ${branch}`)).size;
    expect(before.length).toBeLessThanOrEqual(first.length + 4 * branches);
  });
});

describe('the comparison with Git', () => {
  it('finds no difference in an exact mirror, before and after edits', async () => {
    const writer = createWriter(samples);
    for (let turn = 0; turn < 6; turn += 1) await writer.edit();
    await mirrorAll(join(root, 'mirror'));
    const comparison = await compareWithGit(samples.registry, join(root, 'mirror'), pathOf);
    expect(comparison).toMatchObject({ differences: [], leftOut: 0 });
    expect(comparison.targets).toBeGreaterThanOrEqual(5);
    expect(comparison.files).toBeGreaterThan(comparison.targets);
    expect(comparison.bytes).toBeGreaterThan(100_000);
  });

  it('finds every difference', async () => {
    const mirror = join(root, 'mirror');
    await mirrorAll(mirror);
    await appendFile(join(mirror, 'Accounting/main/README.md'), ' ');
    await rm(join(mirror, 'Accounting/main/Notes/empty.txt'));
    await writeFile(join(mirror, 'Accounting/main/Notes/extra.txt'), '');
    await rm(join(mirror, 'Sales Europe/main'), { recursive: true });
    const { differences } = await compareWithGit(samples.registry, mirror, pathOf);
    expect([...differences].sort()).toEqual([
      'Accounting, main: Notes/empty.txt is missing',
      'Accounting, main: Notes/extra.txt is not in Git',
      'Accounting, main: README.md has other bytes',
      'Sales Europe, main: the tree is missing',
    ]);
  });
});
