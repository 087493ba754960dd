import { createServer } from 'node:http';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { Asker } from '../../../src/probe/connection.ts';
import { escaped } from '../../../src/lib/text/terminal-text.ts';
import { probe, type ProbeReport } from '../../../src/probe/probe.ts';
import type { ProbeOptions } from '../../../src/probe/subject.ts';
import { renderReport } from '../../../src/probe/report.ts';
import { listen } from '../../support/listen.ts';
import { API_KEY, API_TOKEN, type FakeKnobs, type FakeService } from '../../support/fake-service.ts';
import { startFake } from '../../support/started-fake.ts';
import { run, start, variablesOf } from '../../support/program.ts';

async function startSecretary(knobs: Partial<FakeKnobs> = {}): Promise<FakeService> {
  const service = await startFake(knobs);
  const accounting = service.addRepository('Secretary', {
    'Confidential/Salaries.xlsx': 'The salaries.',
    'Plan.xlsx': 'The plan.',
  });
  service.fork(accounting, 'main', 'unannounced');
  service.write(accounting, 'unannounced', 'Plan.xlsx', 'Another plan.');
  const files = Object.fromEntries(
    Array.from({ length: 6 }, (_, index) => [`deep/f${index}.xlsx`, `${index}`.repeat(500)]),
  );
  service.addRepository('git.intranet.example/finance/takeover.git', files);
  return service;
}

function optionsFor(baseUrl: string): ProbeOptions {
  return {
    baseUrl,
    credential: (generation) => (generation === 'current' ? API_KEY : API_TOKEN),
    timeoutMs: 5000,
    signal: new AbortController().signal,
    withWrongKey: false,
    sample: 2,
    maxRequests: 200,
    maxDownloadBytes: 1_000_000,
    onProgress: () => {},
  };
}

function probed(service: FakeService, options: Partial<ProbeOptions> = {}): Promise<ProbeReport> {
  return probe({ ...optionsFor(service.baseUrl), ...options });
}

function answerTo(report: ProbeReport, id: string): string {
  return report.findings.find((finding) => finding.id === id)?.answer ?? '(nothing)';
}

it('a request of a probe ends if the response never ends, is counted from 1, and waited only as long as the clock says', async () => {
  vi.spyOn(performance, 'now').mockReturnValue(5000);
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const drip = setInterval(() => response.write(' '), 20);
    response.once('close', () => clearInterval(drip));
  });
  const onProgress = vi.fn<ProbeOptions['onProgress']>();
  const options = optionsFor(`http://${await listen(server)}/api`);
  const asker = new Asker({ ...options, timeoutMs: 200, onProgress });
  onTestFinished(() => asker.close());
  const answer = await asker.ask({ target: '/repos', maxBytes: 1000, credential: null });
  const failure = { code: 'service.timeout' };
  expect(answer).toMatchObject({ status: 0, isWhole: false, waitMs: 0, failure });
  expect(onProgress.mock.calls).toEqual([['', 1]]);
});

describe('a probe', () => {
  it.each<[string, Partial<FakeKnobs>, Record<string, string>]>([
    [
      'as it is',
      {},
      {
        'repositories.list': '2 (1 of Git addresses, 1 drag-and-drop, 0 malformed)',
        'repositories.fields': 'all',
        'repositories.alias': '404 JSON',
        'workbooks.v1': 'yes',
        'workbooks.count': 'yes',
        'workbooks.branches': 'yes: 2 of 8 on several of 3 branches',
        'workbooks.integration': 'full_name 2, id 0, no listed repository 0',
        'workbooks.status': 'success 10',
        'branches.omitted': 'the same as 1 of 2 listed branches',
        'branches.absent': '404 JSON',
        'archives.leading_folder': 'no',
        'archives.folder': expect.stringMatching(/^\d+ folders$/) as string,
        'files.content': expect.stringMatching(/^\d+ files on \d branches/) as string,
        'contents.conditional': 'no ETag',
        'credentials.v1.wrong': 'not asked',
        'transport.clock': 'less than 2 s',
      },
    ],
    [
      'references by short name, with pages for others',
      { references: new Set(['name']), unacceptedReference: 'html-200' },
      {
        'references.drag_and_drop': 'id: 200 HTML page; full name, slashes encoded: yes',
        'references.git':
          'id: 200 HTML page; full name, slashes encoded: 200 HTML page; full name, slashes as they are: 200 HTML page; short name: yes',
      },
    ],
    [
      'repositories by their other name only',
      { repositoriesPath: '/repositories' },
      {
        'repositories.list': expect.stringMatching(
          /malformed\), as \/repositories: there is no \/repos$/,
        ) as string,
        'repositories.alias': 'the same list',
        'references.drag_and_drop': expect.stringMatching(/^id: yes/) as string,
        'files.content': expect.stringMatching(/^\d+ files on \d branches/) as string,
      },
    ],
    [
      'strong tags',
      { etag: 'strong', conditional: true },
      { 'contents.conditional': 'a strong tag, status 304 while it fits' },
    ],
    [
      'a filter that takes every row',
      { listedAs: () => ({ status: { processing: 0, failure: 1 } }) },
      { 'workbooks.failure': '10 of 10 rows' },
    ],
    [
      'one weak tag for changing bytes',
      {
        headers: { etag: 'W/"x"' },
        beforeDownload: ({ branches }) => {
          for (const { files } of branches.values()) files.set('now', Buffer.from(`${Math.random()}`));
        },
      },
      { 'contents.conditional': 'a weak tag, status 200 while it fits' },
    ],
  ])('sees %s', async (_name, knobs, answers) => {
    const report = await probed(await startSecretary(knobs));
    expect(report.stopped).toBeNull();
    for (const [id, answer] of Object.entries(answers))
      expect([id, answerTo(report, id)]).toEqual([id, answer]);
  });

  it('only reads, and sends each credential where it belongs', async () => {
    const other = await startFake();
    const service = await startSecretary({ pageSize: 2, next: 'other-host', otherOrigin: other.origin });
    await probed(service);
    service.fault = (path) => (path.includes('/contents') ? { kind: 'redirect', to: other.origin } : null);
    await probed(service);
    expect(service.credentialFaults()).toEqual([]);
    expect(new Set(service.requests.map(({ method }) => method))).toEqual(new Set(['GET']));
    expect(other.requests).toEqual([]);
  });

  it('sends a wrong key, or none, only on request', async () => {
    const service = await startSecretary();
    const report = await probed(service, { withWrongKey: true });
    expect(service.credentialFaults()).toHaveLength(4);
    expect(answerTo(report, 'credentials.current.wrong')).toBe('401 JSON');
    expect(answerTo(report, 'credentials.v1.none')).toBe('401 JSON');
  });

  it('does not ask v1 without a token', async () => {
    const service = await startSecretary();
    const report = await probed(service, {
      credential: (generation) => (generation === 'current' ? API_KEY : null),
    });
    expect(answerTo(report, 'workbooks.v1')).toBe('not asked: there is no token');
    expect(service.requests.filter(({ path }) => path.includes('/v1/'))).toEqual([]);
  });

  it('tries the next repository where the first one of its kind is empty', async () => {
    const service = await startFake();
    service.addRepository('A new team', {});
    service.addRepository('Secretary', { 'Plan.xlsx': 'The plan.' });
    const report = await probed(service, { credential: (of) => (of === 'current' ? API_KEY : null) });
    expect(answerTo(report, 'references.drag_and_drop')).toContain(': yes');
    expect(answerTo(report, 'archives.whole')).toBe('1 archives, 1 files');
  });

  it('downloads nothing that is too large', async () => {
    const report = await probed(await startSecretary({ length: 'chunked' }), { maxDownloadBytes: 100 });
    expect(answerTo(report, 'archives.leading_folder')).toContain('within the limit');
  });

  it('ends when the service refuses a credential, or asks for fewer requests', async () => {
    const service = await startSecretary();
    service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 401 } : null);
    expect((await probed(service)).stopped).toBe('the service refused the credential (status 401)');
    service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 429 } : null);
    const report = await probed(service);
    expect(report.stopped).toBe('the service asked for fewer requests (status 429)');
    expect(answerTo(report, 'workbooks.v1')).toBe('yes');
  });

  it.each([
    [{ kind: 'status', status: 401 }, 'credentials.refused'],
    [{ kind: 'status', status: 403 }, 'credentials.refused'],
    [{ kind: 'status', status: 404 }, 'service.not_found'],
    [{ kind: 'status', status: 429 }, 'service.busy'],
    [{ kind: 'redirect', to: 'http://other.invalid/' }, 'service.wrong_kind'],
    [{ kind: 'cut', after: 3 }, 'service.unreachable'],
    [{ kind: 'html' }, 'service.wrong_kind'],
  ] as const)('fails when there is no list of repositories: %j', async (fault, code) => {
    const service = await startSecretary();
    service.fault = () => fault;
    await expect(probed(service)).rejects.toMatchObject({ code });
  });

  it('continues after cut answers and pages of a router, at every endpoint', async () => {
    for (const part of ['/contents', '/v1/workbooks', '/repositories', '?status', '?page']) {
      for (const fault of [
        { kind: 'html' },
        { kind: 'cut', after: 20 },
        { kind: 'status', status: 500 },
        { kind: 'truncate', keep: 30 },
      ] as const) {
        const service = await startSecretary({ pageSize: 4 });
        service.fault = (path) => (path.includes(part) ? fault : null);
        const report = await probed(service);
        expect(report.findings.length).toBeGreaterThan(15);
      }
    }
  });

  it('contains no names', async () => {
    const service = await startSecretary({
      extraFields: true,
      pageSize: 4,
      etag: 'strong',
      headers: {
        server: 'proxy.intranet.example',
        'x-powered-by': 'Takeover Portal',
        'x-ratelimit-takeover': '1',
      },
      malformedRepositories: [
        { id: 'Secretary', name: 'x', full_name: 'x', Secretary: 1, 'finance/takeover': 2 },
      ],
      malformedWorkbooks: [
        {
          id: 'x',
          name: '/y',
          integration: 'Secretary',
          version: { id: 'v', branch: 'unannounced', unannounced: 1 },
        },
      ],
    });
    service.fault = (path) => {
      if (!path.includes('/contents') || !path.includes('no-such-thing')) return null;
      return {
        kind: 'body',
        body: Buffer.from('{"Secretary":"Salaries","takeover":{"intranet":1}}'),
        headers: { 'content-type': 'application/json' },
      };
    };
    const report = await probed(service, { withWrongKey: true });
    const text = `${JSON.stringify(report)}${String(renderReport(report, escaped))}`;
    const names = [
      'Secretary',
      'Confidential',
      'Salaries',
      'Plan.xlsx',
      'unannounced',
      'intranet',
      'finance/takeover',
      'Takeover',
      'takeover',
      'Änne',
      '127.0.0.1',
      'deep/',
      API_KEY,
      API_TOKEN,
      ...service.repositories.map(({ id }) => id),
    ];
    expect(names.filter((name) => text.includes(name))).toEqual([]);
  });
});

function settingsOf(service: FakeService): Record<string, string> {
  return variablesOf(service.settingsFor('/not/there'));
}

describe('the command probe', () => {
  it('prints a list of statements', async () => {
    const { exitCode, stdout, stderr } = await run(['probe'], settingsOf(await startSecretary()));
    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/^Reading only, at most 150 requests, one after the other\.\n/);
    expect(stdout).toMatch(/^Probe of a service by workbook-mirror \d/);
    expect(stdout).toMatch(/^ {2}holds +no two repositories have one id/m);
  });

  it('prints the same as JSON, and ends with 1 if it ended early', async () => {
    const args = ['probe', '--json', '--quiet', '--max-requests', '12'];
    const { exitCode, stdout } = await run(args, settingsOf(await startSecretary()));
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      format: 2,
      requests: 12,
      stopped: 'all 12 requests were used up',
    });
  });

  it('ends immediately when it is interrupted', async () => {
    const service = await startSecretary();
    service.fault = (path) => (path.includes('/contents') ? { kind: 'silence' } : null);
    const running = start(['probe'], settingsOf(service));
    await expect.poll(() => service.requests.some(({ path }) => path.includes('/contents'))).toBe(true);
    running.child.kill('SIGINT');
    const { exitCode, stdout, stderr } = await running.ended;
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toContain('The probe was abandoned.');
  });
});
