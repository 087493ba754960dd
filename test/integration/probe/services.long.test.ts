import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterEach, beforeAll, describe, expect, it } from 'vitest';

import { createSamples } from '../../../src/server/demo/samples.ts';
import { createGitLibrary } from '../../../src/server/git/library.ts';
import { fixedKey } from '../../../src/server/keys/keys.ts';
import type { ProcessingStatus, WorkbookRow } from '../../../src/server/http/library.ts';
import { createService } from '../../../src/server/http/service.ts';
import { probe, STATEMENTS } from '../../../src/probe/probe.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import type { ProbeOptions } from '../../../src/probe/subject.ts';
import { API_KEY, API_TOKEN, type FakeKnobs, FakeService } from '../../support/fake-service.ts';
import { MAIN } from '../../support/built.ts';

/** The address and keys of a service. */
interface ServiceOptions {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly apiToken: string;
  readonly groupKey?: string;
}

/** An implementation of the service that is running. */
interface Implementation {
  readonly options: ServiceOptions;
  readonly close: () => Promise<void>;
}

/** Tries all statements on a service, including those with wrong keys. */
async function findingsOf(
  { baseUrl, apiKey, apiToken, groupKey }: ServiceOptions,
  options: Partial<ProbeOptions> = {},
): Promise<readonly Finding[]> {
  const { findings } = await probe({
    baseUrl,
    credential: (generation) => (generation === 'current' ? apiKey : apiToken),
    wrong: groupKey === undefined ? { apiKey } : { apiKey, groupKey },
    sample: 3,
    timeoutMs: 30_000,
    maxDownloadBytes: 64_000_000,
    maxRequests: 1000,
    onProgress: () => {},
    signal: new AbortController().signal,
    ...options,
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

/** The embedded service on Git repositories, with pages so small that there are several. */
async function startGitService(status?: typeof statusOf): Promise<Implementation> {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-test-'));
  const { registry } = await createSamples(join(folder, 'service'));
  const library = createGitLibrary(registry);
  const workbooks: typeof library.workbooks = async () => ({
    ...(await library.workbooks()),
    ...(status === undefined ? {} : { statusOf: status }),
  });
  const [apiKey, apiToken, groupKey] = ['a-personal-key', 'a-personal-token', 'a-group-key'];
  const keys = [
    fixedKey('personal', 'tests', apiKey),
    fixedKey('token', 'tests', apiToken),
    fixedKey('group', 'tests', groupKey),
  ];
  const service = createService({
    library: { ...library, workbooks },
    changes: library.changes,
    keys: () => Promise.resolve(keys),
    pageSize: 4,
  });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  return {
    options: { baseUrl, apiKey, apiToken, groupKey },
    close: async () => {
      await service.close();
      await library.close();
      await registry.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The service on a mirror of the above, as the program serves it. */
async function startReplica(): Promise<Implementation> {
  const original = await startGitService();
  const folder = await mkdtemp(join(tmpdir(), 'conformance-test-'));
  const { baseUrl, apiKey, apiToken } = original.options;
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('WORKBOOK_MIRROR_'));
  const env = {
    ...Object.fromEntries(inherited),
    WORKBOOK_MIRROR_DIRECTORY: folder,
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: apiKey,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: apiToken,
    WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0',
    WORKBOOK_MIRROR_SERVE_API_KEY: 'a-key-of-the-replica',
    WORKBOOK_MIRROR_SERVE_API_TOKEN: 'a-token-of-the-replica',
  };
  await promisify(execFile)(process.execPath, [MAIN, 'sync'], { env });
  await original.close();
  const child = spawn(process.execPath, [MAIN, 'serve', '--from-mirror'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
  return {
    options: { baseUrl: line.trim(), apiKey: 'a-key-of-the-replica', apiToken: 'a-token-of-the-replica' },
    close: async () => {
      child.kill();
      await once(child, 'exit');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

describe.each([
  {
    name: 'the embedded service on Git',
    start: () => startGitService(statusOf),
    untried: [],
  },
  {
    name: 'the embedded service on a mirror',
    start: startReplica,
    untried: ['credentials.current.group'],
  },
])('$name', ({ start, untried }) => {
  let findings: ReadonlyMap<string, Finding> = new Map();

  beforeAll(async () => {
    const running = await start();
    try {
      const found = await findingsOf(running.options);
      findings = new Map(found.map((finding) => [finding.id, finding]));
    } finally {
      await running.close();
    }
  });

  it.each(Object.keys(STATEMENTS))('does as the API says: %s', (id) => {
    const { kind } = STATEMENTS[id] ?? {};
    const outcome = kind === 'open' ? 'seen' : 'holds';
    expect(findings.get(id)).toMatchObject({ outcome: untried.includes(id) ? 'not tried' : outcome });
  });
});

describe('the statements', () => {
  let service: FakeService | null = null;

  afterEach(async () => {
    await service?.close();
    service = null;
  });

  async function startFake(knobs: Partial<FakeKnobs> = {}): Promise<FakeService> {
    service = await FakeService.start(knobs);
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
  async function failures(
    { baseUrl }: FakeService,
    keys: Partial<ServiceOptions> = {},
    options: Partial<ProbeOptions> = {},
  ): Promise<string[]> {
    const all = { baseUrl, apiKey: API_KEY, apiToken: API_TOKEN, ...keys };
    const findings = await findingsOf(all, options);
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
    expect(await failures(await startFake())).toEqual(UNFILTERED);
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
    expect((await failures(await startFake(knobs))).filter((id) => id !== 'workbooks.version')).toEqual(
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
    expect(await failures(await startFake(knobs))).toEqual(expect.arrayContaining(ids));
  });

  it.each<[string, string, (rows: Record<string, unknown>[]) => unknown, string]>([
    ['an object for the list', '/repos', (rows) => ({ rows }), 'repositories.list'],
    ['a number as id', '/repos', (rows) => rows.map((row) => ({ ...row, id: 7 })), 'repositories.fields'],
  ])('finds %s', async (_name, path, edit, id) => {
    const fake = await startFake();
    await change(fake, path, { 'x-api-key': API_KEY }, edit);
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
    const fake = await startFake();
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
    const fake = await startFake();
    fake.fault = fault;
    expect(await failures(fake)).toContain(id);
  });

  it('finds keys that open too much', async () => {
    const fake = await startFake();
    fake.moreKeys.add(API_TOKEN).add('a-group-key');
    fake.moreTokens.add(API_KEY);
    const found = await failures(fake, { groupKey: 'a-group-key' });
    expect(found).toEqual(
      expect.arrayContaining([
        'credentials.current.token',
        'credentials.current.group',
        'credentials.v1.key',
      ]),
    );
  });
});
