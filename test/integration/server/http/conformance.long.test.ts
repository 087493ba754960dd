import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { createSamples } from '../../../../src/server/demo/samples.ts';
import { createGitLibrary } from '../../../../src/server/git/library.ts';
import { fixedKey } from '../../../../src/server/http/keys.ts';
import type { ProcessingStatus, WorkbookRow } from '../../../../src/server/http/library.ts';
import { createService } from '../../../../src/server/http/service.ts';
import { Subject, type SubjectOptions } from '../../../conformance/subject.ts';
import { STATEMENTS, tryAll, tryStatement } from '../../../conformance/suite.ts';
import {
  API_KEY,
  API_TOKEN,
  type FakeKnobs,
  FakeService,
  startOtherOrigin,
} from '../../../support/fake-service.ts';

/** An implementation of the service that is running. */
interface Implementation {
  readonly options: Pick<SubjectOptions, 'baseUrl' | 'apiKey' | 'apiToken'> & Partial<SubjectOptions>;
  readonly close: () => Promise<void>;
}

function subjectOf(options: Implementation['options']): Subject {
  return new Subject({
    groupKey: null,
    allowsWrites: false,
    externalUrl: null,
    externalCredential: { username: '', password: '' },
    sample: 3,
    timeoutMs: 30_000,
    maxBodyBytes: 64_000_000,
    ...options,
  });
}

/** The counters of the sample workbooks: some are being processed, some have failed. */
function standingOf({ path, branch }: WorkbookRow): ProcessingStatus {
  const processing = path.includes('Budget') ? 1 : 0;
  const failure = branch === 'main' && path.endsWith('.xlsm') ? 2 : 0;
  const status = failure > 0 ? 'failure' : processing > 0 ? 'processing' : 'success';
  return { status, processing, failure };
}

/** The embedded service on Git repositories, with pages so small that there are several. */
async function startGitService(standing?: typeof standingOf): Promise<Implementation> {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-test-'));
  const { registry } = await createSamples(join(folder, 'service'));
  const library = createGitLibrary(registry, standing === undefined ? {} : { standingOf: standing });
  const [apiKey, apiToken, groupKey] = ['a-personal-key', 'a-personal-token', 'a-group-key'];
  const keys = [
    fixedKey('personal', 'tests', apiKey),
    fixedKey('token', 'tests', apiToken),
    fixedKey('group', 'tests', groupKey),
  ];
  const service = createService({
    library,
    changes: library.changes,
    keys: () => Promise.resolve(keys),
    pageSize: 4,
  });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  return {
    options: { baseUrl, apiKey, apiToken, groupKey, allowsWrites: true },
    close: async () => {
      await service.close();
      await library.close();
      await registry.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const MAIN = join(import.meta.dirname, '../../../../src/main.ts');

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
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: apiToken ?? '',
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

/** Those of the statements that take a group key, or create something. */
const OF_CHANGES = STATEMENTS.filter(({ needs = [] }) => needs.some((need) => need !== 'token')).map(
  ({ id }) => id,
);

describe.each([
  {
    name: 'the embedded service on Git',
    start: () => startGitService(standingOf),
    untried: ['create-by-address', 'reference-ambiguous'],
  },
  {
    name: 'the embedded service on a mirror',
    start: startReplica,
    untried: [...OF_CHANGES, 'reference-ambiguous'],
  },
])('$name', ({ start, untried }) => {
  let running: Implementation;
  let subject: Subject;

  beforeAll(async () => {
    running = await start();
    subject = subjectOf(running.options);
  }, 60_000);

  afterAll(async () => {
    await subject.close();
    await running.close();
  });

  it.each(STATEMENTS.map((statement) => ({ ...statement })))('$id: $statement', async (statement) => {
    const { outcome, detail } = await tryStatement(statement, subject);
    expect([statement.id, outcome, detail]).toEqual([
      statement.id,
      untried.includes(statement.id) ? 'not applicable' : 'pass',
      expect.any(String),
    ]);
  });
});

describe('the suite', () => {
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
  async function failures(fake: FakeService, options: Partial<SubjectOptions> = {}): Promise<string[]> {
    const subject = subjectOf({ baseUrl: fake.baseUrl, apiKey: API_KEY, apiToken: API_TOKEN, ...options });
    try {
      const results = await tryAll(subject);
      return results.filter(({ outcome }) => outcome === 'fail').map(({ id }) => id);
    } finally {
      await subject.close();
    }
  }

  /** Has an answer in JSON changed on its way. */
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

  /** What the fake service does not know: a filter, which it takes for none. */
  const UNFILTERED = ['filter-processing', 'filter-failure'];

  it('has every id once, and a section and a statement for each', () => {
    expect(new Set(STATEMENTS.map(({ id }) => id)).size).toBe(STATEMENTS.length);
    for (const { section, statement } of STATEMENTS) {
      expect(section).not.toBe('');
      expect(statement).not.toBe('');
    }
  });

  it('finds nothing wrong with a service of another make but what it lacks', async () => {
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
  ])('lets everything be that the specification leaves open: %s', async (_name, knobs) => {
    expect((await failures(await startFake(knobs))).filter((id) => id !== 'version-parent')).toEqual(
      UNFILTERED,
    );
  });

  it.each<[string, Partial<FakeKnobs>, string[]]>([
    ['no microseconds', { microseconds: false }, ['repos-created-at']],
    [
      'missing fields',
      { missingFields: true },
      ['page-envelope', 'version-fields', 'version-parent', 'counters'],
    ],
    ['a repository that is a text', { malformedRepositories: ['x'] }, ['repos-fields']],
    [
      'a repository twice',
      {
        malformedRepositories: [
          { id: 'x', name: 'x', full_name: 'x', url: null },
          { id: 'x', name: 'x', full_name: 'x', url: null },
        ],
      },
      ['repos-unique', 'repos-id', 'repos-created-at'],
    ],
    [
      'a name with a slash',
      { malformedRepositories: [{ id: 'x', name: 'x', full_name: 'y/x', url: null }] },
      ['repos-drag-and-drop-names'],
    ],
    [
      'a credential in an address',
      {
        malformedRepositories: [{ id: 'x', name: 'r', full_name: 'u:p@h/r.git', url: 'https://u:p@h/r.git' }],
      },
      ['repos-external-url'],
    ],
    [
      'another full name than the address',
      { malformedRepositories: [{ id: 'x', name: 'r', full_name: 'h/other.git', url: 'https://h/r.git' }] },
      ['repos-external-names'],
    ],
    ['a count that is too great', { countOffset: 1 }, ['page-count']],
    ['a row twice', { duplicateRows: true }, ['page-rows-once']],
    ['a workbook that is a number', { malformedWorkbooks: [7] }, ['workbooks-list']],
    [
      'workbooks of unknown repositories',
      { unlistedIntegrations: ['git.example.com/gone.git'] },
      ['workbooks-join'],
    ],
    ['ids as integrations of Git repositories', { integration: 'id' }, ['workbooks-join']],
    ['pages that lead elsewhere', { next: 'other-host', pageSize: 2 }, ['workbooks-list']],
    ['pages that lead out of the API', { next: 'without-prefix', pageSize: 2 }, ['workbooks-list']],
    ['no way back from a page', { pageSize: 2 }, ['page-previous']],
    ['v1 as a web page', { v1: 'html-200' }, ['workbooks-list', 'token-needed', 'token-unknown']],
    ['v1 not found', { v1: '404' }, ['workbooks-list']],
  ])('finds %s', async (_name, knobs, ids) => {
    expect(await failures(await startFake(knobs))).toEqual(expect.arrayContaining(ids));
  });

  it.each<[string, string, (rows: Record<string, unknown>[]) => unknown, string]>([
    ['an object for the list', '/repos', (rows) => ({ rows }), 'repos-list'],
    ['a number as id', '/repos', (rows) => rows.map((row) => ({ ...row, id: 7 })), 'repos-fields'],
    [
      'an id that is no UUID',
      '/repos',
      (rows) => rows.map((row, index) => ({ ...row, id: `id-${index}` })),
      'repos-id',
    ],
    [
      'an address with a .git too few',
      '/repos',
      (rows) =>
        rows.map((row) =>
          row['url'] === null ? row : { ...row, url: 'https://git.example.com/org/forecast' },
        ),
      'repos-external-url',
    ],
  ])('finds %s', async (_name, path, edit, id) => {
    const fake = await startFake();
    await change(fake, path, { 'x-api-key': API_KEY }, edit);
    expect(await failures(fake)).toContain(id);
  });

  it.each<[string, (row: Record<string, Record<string, unknown>>) => unknown, string]>([
    ['another type', (row) => ({ ...row, type: 'sheet' }), 'workbooks-type'],
    ['a name without its slash', (row) => ({ ...row, name: 'Budget.xlsx' }), 'workbooks-name'],
    ['another id', (row) => ({ ...row, id: 'x' }), 'workbooks-id'],
    ['a path as display name', (row) => ({ ...row, display_name: row['name'] }), 'workbooks-display-name'],
    ['a text as version', (row) => ({ ...row, version: 'x' }), 'workbooks-fields'],
    ['a short commit', (row) => ({ ...row, version: { ...row['version'], id: 'abc1234' } }), 'version-id'],
    [
      'a fraction of a second',
      (row) => ({ ...row, version: { ...row['version'], created_at: '2026-01-02T03:04:05.1+00:00' } }),
      'version-created-at',
    ],
    [
      'no offset',
      (row) => ({ ...row, version: { ...row['version'], created_at: '2026-01-02T03:04:05' } }),
      'version-created-at',
    ],
    [
      'a month 13',
      (row) => ({ ...row, version: { ...row['version'], created_at: '2026-13-02T03:04:05+00:00' } }),
      'version-created-at',
    ],
    [
      'a parent without an id',
      (row) => ({ ...row, version: { ...row['version'], parent: { id: null } } }),
      'version-parent',
    ],
    [
      'a parent with more',
      (row) => ({ ...row, version: { ...row['version'], parent: { id: 'a'.repeat(40), x: 1 } } }),
      'version-parent',
    ],
    ['a text as counter', (row) => ({ ...row, status: { processing: '0', failure: 0 } }), 'counters'],
    ['a negative counter', (row) => ({ ...row, status: { processing: -1, failure: 0 } }), 'counters'],
    [
      'a workbook that is not in the contents',
      (row) => ({
        ...row,
        name: '/no.xlsx',
        id: `${JSON.stringify(row['integration']).slice(1, -1)}/no.xlsx`,
        display_name: 'no.xlsx',
      }),
      'workbooks-in-contents',
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
    ['web pages for contents', (path) => (path.includes('/contents') ? HTML : null), 'contents-repository'],
    [
      'archives that are cut off',
      (path) => (ofArchive(path) ? { kind: 'truncate', keep: 60 } : null),
      'contents-repository',
    ],
    [
      'archives with a byte that is wrong',
      (path) => (ofArchive(path) ? { kind: 'flip', at: 62, mask: 1 } : null),
      'contents-repository',
    ],
    [
      'files that are cut off',
      (path) => (ofFile(path) ? { kind: 'truncate', keep: 0 } : null),
      'contents-file',
    ],
    [
      'answers shorter than they say',
      (path) => (ofFile(path) ? { kind: 'length', delta: 5 } : null),
      'contents-file',
    ],
    ['web pages for files', (path) => (ofFile(path) ? HTML : null), 'contents-media-type'],
    [
      'a redirect to another place',
      (path) => (path === '/api/repos' ? { kind: 'redirect', to: 'http://other.invalid/' } : null),
      'repos-list',
    ],
    [
      'success for what is not there',
      (path) => (path.includes('no-such-thing') ? HTML : null),
      'absent-path',
    ],
    [
      'a branch that is taken for another',
      (path) =>
        path.includes('branch=draft') && ofFile(path) ? { kind: 'body', body: Buffer.from('a') } : null,
      'contents-branch',
    ],
    [
      'folders that give the whole',
      (path) => (path.endsWith('/a?branch=main') ? HTML : null),
      'contents-folder',
    ],
  ])('finds %s', async (_name, fault, id) => {
    const fake = await startFake();
    fake.fault = fault;
    expect(await failures(fake)).toContain(id);
  });

  it('finds keys that open what they must not', async () => {
    const fake = await startFake();
    fake.moreKeys.add(API_TOKEN).add('a-group-key');
    fake.moreTokens.add(API_KEY);
    const found = await failures(fake, { groupKey: 'a-group-key' });
    expect(found).toEqual(
      expect.arrayContaining(['key-of-v1-refused', 'key-group-refused', 'token-of-current-refused']),
    );
  });

  it('sends nothing to another origin, and only reads unless it may create', async () => {
    const other = await startOtherOrigin();
    try {
      const fake = await startFake({ next: 'other-host', otherOrigin: other.origin, pageSize: 2 });
      fake.fault = (path) => (path.includes('/contents') ? { kind: 'redirect', to: other.origin } : null);
      await failures(fake);
      expect(fake.requests.every(({ method }) => ['GET', 'HEAD'].includes(method))).toBe(true);
      expect(other.requests).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it('is run by a person: prints what holds, never a key, and ends as it should', async () => {
    const fake = await startFake();
    const program = join(import.meta.dirname, '../../../conformance/main.ts');
    const runIt = async (
      args: string[],
      environment: object,
    ): Promise<{ code: unknown; stdout: string; stderr: string }> => {
      const child = execFile(process.execPath, [program, ...args], {
        env: { PATH: process.env['PATH'], ...environment },
      });
      const [stdout, stderr] = await Promise.all([
        text(child.stdout ?? Readable.from([])),
        text(child.stderr ?? Readable.from([])),
      ]);
      return { code: child.exitCode ?? (await once(child, 'exit'))[0], stdout, stderr };
    };
    const keys = { CONFORMANCE_API_KEY: API_KEY, CONFORMANCE_API_TOKEN: API_TOKEN };
    const table = await runIt(['--base-url', fake.baseUrl], keys);
    expect(table).toMatchObject({ code: 1, stderr: '' });
    expect(table.stdout).toMatch(/^pass {2}repos-list/m);
    expect(table.stdout).toMatch(/^FAIL {2}filter-failure/m);
    expect(table.stdout).toMatch(/ statements: \d+ hold, 2 do not, \d+ could not be tried\.$/m);
    const json = await runIt(['--base-url', fake.baseUrl, '--json'], { CONFORMANCE_API_KEY: API_KEY });
    expect(json.code).toBe(0);
    expect(JSON.parse(json.stdout)).toHaveLength(STATEMENTS.length);
    for (const { stdout } of [table, json]) {
      expect(stdout).not.toContain(API_KEY);
      expect(stdout).not.toContain(API_TOKEN);
    }
    expect((await runIt(['--base-url', fake.baseUrl], { CONFORMANCE_API_KEY: 'wrong-key' })).code).toBe(2);
    expect((await runIt(['--base-url', fake.baseUrl], {})).code).toBe(2);
    expect((await runIt(['--base-url', 'http://127.0.0.1:1/api'], keys)).code).toBe(2);
    expect((await runIt(['--no-such-flag'], keys)).code).toBe(2);
  });
});
