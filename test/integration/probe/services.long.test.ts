import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { probe, STATEMENTS } from '../../../src/probe/probe.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import { createSamples } from '../../../src/server/demo/samples.ts';
import { createGitLibrary, type GitLibrary } from '../../../src/server/git/library.ts';
import type { ProcessingStatus, WorkbookRow } from '../../../src/server/http/library.ts';
import { API_KEY, API_TOKEN, type FakeKnobs, type FakeService } from '../../support/fake-service.ts';
import { startFake } from '../../support/started-fake.ts';
import { run, variablesOf } from '../../support/program.ts';
import { KEY, startGitService, TOKEN } from '../../support/git-service.ts';
import { KEY as REPLICA_KEY, startReplica, TOKEN as REPLICA_TOKEN } from '../../support/replica.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** The address and keys of a service. */
type ServiceOptions = Awaited<ReturnType<typeof startOnGit>>;

/** Tries all statements on a service, including those with wrong keys. */
async function findingsOf({ baseUrl, apiKey, apiToken }: ServiceOptions): Promise<readonly Finding[]> {
  const { findings } = await probe({
    baseUrl,
    credential: (generation) => (generation === 'current' ? apiKey : apiToken),
    withWrongKey: true,
    sample: 3,
    timeoutMs: 30_000,
    maxDownloadBytes: 64_000_000,
    maxRequests: 1000,
    onProgress: () => {},
    signal: new AbortController().signal,
  });
  return findings;
}

/** The counters of the sample workbooks: some are being processed, some have failed. */
function statusOf({ path, branch }: WorkbookRow): ProcessingStatus {
  const processing = path.includes('Budget') ? 1 : 0;
  const failure = branch === 'main' && path.endsWith('.xlsm') ? 2 : 0;
  const status = failure > 0 ? 'failure' : processing > 0 ? 'processing' : 'success';
  return { status, processing, failure };
}

/** Starts the embedded service on Git repositories, with pages so small that there are several. */
async function startOnGit(status?: typeof statusOf) {
  const { registry } = await createSamples(join(await temporaryFolder(), 'service'));
  const library = createGitLibrary(registry);
  const workbooks: GitLibrary['workbooks'] = async () => ({
    ...(await library.workbooks()),
    ...(status === undefined ? {} : { statusOf: status }),
  });
  const served = { ...library, workbooks };
  const { baseUrl } = await startGitService(registry, () => {}, { pageSize: 4 }, served);
  return { baseUrl, apiKey: KEY, apiToken: TOKEN };
}

/** Starts the embedded service on a mirror of the above. */
async function startOnMirror(): Promise<ServiceOptions> {
  const { baseUrl, apiKey, apiToken } = await startOnGit();
  const directory = await temporaryFolder();
  const settings = { SERVICE_BASE_URL: baseUrl, SERVICE_API_KEY: apiKey, SERVICE_API_TOKEN: apiToken };
  expect((await run(['sync'], variablesOf({ ...settings, DIRECTORY: directory }))).exitCode).toBe(0);
  const replica = await startReplica(directory);
  return { baseUrl: replica.baseUrl, apiKey: REPLICA_KEY, apiToken: REPLICA_TOKEN };
}

it.each<[string, () => Promise<ServiceOptions>]>([
  ['Git', () => startOnGit(statusOf)],
  ['a mirror', startOnMirror],
])('the embedded service on %s does as the API says', async (_, start) => {
  const findings = await findingsOf(await start());
  const outcomes = Object.fromEntries(findings.map(({ id, outcome }) => [id, outcome]));
  const expected = Object.entries(STATEMENTS).map(([id, { kind }]) => [
    id,
    kind === 'open' ? 'seen' : 'holds',
  ]);
  expect(outcomes).toMatchObject(Object.fromEntries(expected) as object);
});

describe('the statements', () => {
  async function startAccounting(knobs: Partial<FakeKnobs> = {}): Promise<FakeService> {
    const service = await startFake(knobs);
    const accounting = service.addRepository('Accounting', {
      'Budget.xlsx': 'The budget of the year 2026, in thousands.',
      'Über uns/Plan A.xlsx': 'bcd',
      'x.txt': 't',
    });
    service.fork(accounting, 'main', 'draft');
    service.write(accounting, 'draft', 'Budget.xlsx', 'another');
    service.addRepository('git.example.com/org/forecast.git', { 'a/b/c.xlsm': 'cc', 'a/d.xlsx': 'ddd' });
    service.version(accounting, 'main', 'Budget.xlsx').processing = 2;
    service.version(accounting, 'draft', 'Budget.xlsx').failure = 1;
    return service;
  }

  /** The ids of the statements that a service fails. */
  async function failures({ baseUrl }: FakeService): Promise<string[]> {
    const findings = await findingsOf({ baseUrl, apiKey: API_KEY, apiToken: API_TOKEN });
    return findings.filter(({ outcome }) => outcome === 'differs').map(({ id }) => id);
  }

  /** Changes an answer in JSON on its way. */
  async function change(
    fake: FakeService,
    path: string,
    credential: object,
    edit: (value: never) => unknown,
  ): Promise<void> {
    const answer = await fetch(`${fake.baseUrl}${path}`, { headers: { ...credential } });
    const body = Buffer.from(JSON.stringify(edit((await answer.json()) as never)));
    fake.fault = (asked) => (asked === `/api${path}` ? { kind: 'body', body } : null);
  }

  /** The fake service ignores the filter of status. */
  const UNFILTERED = ['workbooks.processing', 'workbooks.failure'];

  it('finds only the missing filter in another implementation', async () => {
    expect(await failures(await startAccounting())).toEqual(UNFILTERED);
  });

  it.each<[string, Partial<FakeKnobs>]>([
    ['by id only', { references: new Set(['id']) }],
    ['by full name only', { references: new Set(['full_name']) }],
    ['with a folder around everything', { leadingFolder: 'contents' }],
    [
      'with zip64, folder entries and data descriptors',
      { zip64: true, folderEntries: true, dataDescriptors: true },
    ],
    ['with bodies in gzip', { contentEncoding: 'gzip' }],
    ['in chunks', { length: 'chunked' }],
    ['with tags that it ignores', { etag: 'strong' }],
    ['with weak tags that it honours', { etag: 'weak', conditional: true }],
    ['with further fields', { extraFields: true }],
    ['with status 400 for what is not there', { absentStatus: 400 }],
  ])('accepts what the specification leaves open: %s', async (_name, knobs) => {
    expect((await failures(await startAccounting(knobs))).filter((id) => id !== 'workbooks.version')).toEqual(
      UNFILTERED,
    );
  });

  it.each<[string, Partial<FakeKnobs>, string[]]>([
    ['no microseconds', { microseconds: false }, ['repositories.fields']],
    [
      'missing fields',
      { missingFields: true },
      ['workbooks.pages', 'workbooks.version', 'workbooks.version', 'workbooks.fields'],
    ],
    [
      'a repository twice',
      {
        malformedRepositories: [
          { id: 'x', name: 'x', full_name: 'x', url: null },
          { id: 'x', name: 'x', full_name: 'x', url: null },
        ],
      },
      ['repositories.unique', 'repositories.fields'],
    ],
    [
      'a credential in an address',
      {
        malformedRepositories: [{ id: 'x', name: 'r', full_name: 'u:p@h/r.git', url: 'https://u:p@h/r.git' }],
      },
      ['repositories.fields'],
    ],
    ['a count that is too great', { countOffset: 1 }, ['workbooks.count']],
    ['a workbook that is a number', { malformedWorkbooks: [7] }, ['workbooks.pages']],
    [
      'workbooks of unknown repositories',
      { unlistedIntegrations: ['git.example.com/gone.git'] },
      ['workbooks.integration'],
    ],
    ['ids as integrations of Git repositories', { integration: 'id' }, ['workbooks.integration']],
    ['pages that lead elsewhere', { next: 'other-host', pageSize: 2 }, ['workbooks.next']],
    ['pages that lead out of the API', { next: 'without-prefix', pageSize: 2 }, ['workbooks.next']],
    ['no way back from a page', { pageSize: 2 }, ['workbooks.previous']],
    ['v1 as a web page', { v1: 'html-200' }, ['workbooks.v1', 'credentials.v1.none', 'credentials.v1.wrong']],
    ['v1 not found', { v1: '404' }, ['workbooks.v1']],
  ])('finds %s', async (_name, knobs, ids) => {
    expect(await failures(await startAccounting(knobs))).toEqual(expect.arrayContaining(ids));
  });

  it.each<[string, (rows: Record<string, unknown>[]) => unknown, string]>([
    ['an object for the list', (rows) => ({ rows }), 'repositories.list'],
    ['a number as id', (rows) => rows.map((row) => ({ ...row, id: 7 })), 'repositories.fields'],
    [
      'a name twice, and one not at all',
      ([first, ...more]) => [first, ...more.map((row) => ({ ...row, full_name: first?.['full_name'] }))],
      'workbooks.integration',
    ],
  ])('finds %s', async (_name, edit, id) => {
    const fake = await startAccounting();
    await change(fake, '/repos', { 'x-api-key': API_KEY }, edit);
    expect(await failures(fake)).toContain(id);
  });

  it.each<[string, (row: Record<string, Record<string, unknown>>) => unknown, string]>([
    ['another type', (row) => ({ ...row, type: 'sheet' }), 'workbooks.fields'],
    ['a name without its slash', (row) => ({ ...row, name: 'Budget.xlsx' }), 'workbooks.fields'],
    ['a path as display name', (row) => ({ ...row, display_name: row['name'] }), 'workbooks.fields'],
    ['a text as version', (row) => ({ ...row, version: 'x' }), 'workbooks.version'],
    [
      'a short commit',
      (row) => ({ ...row, version: { ...row['version'], id: 'abc1234' } }),
      'workbooks.version',
    ],
    [
      'a fraction of a second',
      (row) => ({ ...row, version: { ...row['version'], created_at: '2026-01-02T03:04:05.1+00:00' } }),
      'workbooks.version',
    ],
    [
      'a parent without an id',
      (row) => ({ ...row, version: { ...row['version'], parent: { id: null } } }),
      'workbooks.version',
    ],
    ['a negative counter', (row) => ({ ...row, status: { processing: -1, failure: 0 } }), 'workbooks.fields'],
    [
      'a workbook that is not in the contents',
      (row) => ({
        ...row,
        name: '/no.xlsx',
        id: `${JSON.stringify(row['integration']).slice(1, -1)}/no.xlsx`,
        display_name: 'no.xlsx',
      }),
      'workbooks.in_contents',
    ],
  ])('finds %s in a workbook', async (_name, edit, id) => {
    const fake = await startAccounting();
    const editPage = (page: { results: Record<string, Record<string, unknown>>[] }): unknown => ({
      ...page,
      results: page.results.map(edit),
    });
    await change(fake, '/v1/workbooks', { authorization: API_TOKEN }, editPage);
    expect(await failures(fake)).toContain(id);
  });

  const HTML = { kind: 'html' } as const;
  const ofFile = (path: string): boolean => /\.xls[xm]/.test(path);
  const ofArchive = (path: string): boolean => path.includes('/contents') && !ofFile(path);

  it.each<[string, NonNullable<FakeService['fault']>, string]>([
    ['web pages for contents', (path) => (path.includes('/contents') ? HTML : null), 'archives.whole'],
    [
      'archives that are cut off',
      (path) => (ofArchive(path) ? { kind: 'truncate', keep: 60 } : null),
      'archives.whole',
    ],
    [
      'files that are cut off',
      (path) => (ofFile(path) ? { kind: 'truncate', keep: 0 } : null),
      'files.content',
    ],
    [
      'answers shorter than they say',
      (path) => (ofFile(path) ? { kind: 'length', delta: 5 } : null),
      'files.content',
    ],
    [
      'success for what is not there',
      (path) => (path.includes('no-such-thing') ? HTML : null),
      'paths.absent',
    ],
    [
      'a branch that is taken for another',
      (path) =>
        path.includes('branch=draft') && ofFile(path) ? { kind: 'body', body: Buffer.from('a') } : null,
      'files.content',
    ],
    [
      'folders that give the whole',
      (path) => (path.endsWith('/a?branch=main') ? HTML : null),
      'archives.folder',
    ],
  ])('finds %s', async (_name, fault, id) => {
    const fake = await startAccounting();
    fake.fault = fault;
    expect(await failures(fake)).toContain(id);
  });
});
