import { describe, expect, it } from 'vitest';

import { startMirrored, startPair } from '../../../support/mirror-harness.ts';

const HOUR_MS = 3_600_000;

/** A scheduled pass so much later that every target may be tried again. */
const later = (hours: number) => ({ trigger: 'schedule', aheadMs: hours * HOUR_MS }) as const;

describe('the list of repositories', () => {
  it('is found again after one 404, although the other name gives a web page', async () => {
    const { service, mirror } = await startMirrored('Accounting', { 'a.xlsx': 'a' });
    let isFirst = true;
    service.fault = (path) => {
      if (path.startsWith('/api/repositories')) return { kind: 'html' };
      const isMissing = isFirst && path === '/api/repos';
      isFirst &&= !isMissing;
      return isMissing ? { kind: 'status', status: 404 } : null;
    };
    await mirror.failure();
    expect((await mirror.exactPass(later(1))).exitCode).toBe(0);
  });

  it.each<Record<string, unknown>>([{ full_name: null }, { id: 7 }])(
    'lets no short name stand for a repository while a row with that name says %j',
    async (fault) => {
      const { service, mirror } = await startPair(
        { references: new Set(['name']) },
        { SERVICE_API_TOKEN: '' },
      );
      service.addRepository('new.example/model', { 'a.xlsx': 'right' });
      await mirror.pass();
      const stamps = await mirror.stamps();
      service.addRepository('old.example/model', { 'a.xlsx': 'wrong' });
      service.repositories.reverse();
      service.knobs.arrange = (rows) =>
        rows.map((row) =>
          JSON.stringify(row).includes('old.example') ? Object.assign({}, row, fault) : row,
        );
      expect((await mirror.pass(later(1))).exitCode).toBe(1);
      expect(await mirror.stamps()).toStrictEqual(stamps);
    },
  );
});

it('a key that the list refuses with 403 gives way to the next one', async () => {
  const { service, mirror } = await startPair(
    { refusal: 403 },
    { SERVICE_API_KEY: 'revoked-key\nother-key' },
  );
  service.moreKeys.add('other-key');
  service.addRepository('Accounting', { 'a.xlsx': 'a' });
  await mirror.exactPass();
});

describe('references to a repository', () => {
  it.each(['forbidden', 'unprocessable'] as const)(
    'are found again if the known form is %s',
    async (answer) => {
      const { service, mirror } = await startPair({ unacceptedReference: answer });
      const repository = service.addRepository('git.example/x/plan.git', { 'a.xlsx': 'a' });
      await mirror.pass();
      service.knobs.references = new Set(['full_name_encoded']);
      service.write(repository, 'main', 'a.xlsx', 'a2');
      await mirror.pass(later(1));
      await mirror.exactPass(later(30));
    },
  );

  it('are found although the service fails for the first form', async () => {
    const { service, mirror } = await startPair({ references: new Set(['name']) });
    const { id } = service.addRepository('plan', { 'a.xlsx': 'a' });
    service.fault = (path) => (path.includes(id) ? { kind: 'status', status: 500 } : null);
    await mirror.exactPass();
  });
});

it('a repository that answers 503 with Retry-After does not keep others from their turn', async () => {
  const { service, mirror } = await startPair();
  const busy = service.addRepository('Busy', { 'a.xlsx': 'a' });
  for (const name of ['One', 'Two', 'Three', 'Four', 'Five']) service.addRepository(name, { 'a.xlsx': name });
  service.faultContents({ kind: 'status', status: 503, headers: { 'retry-after': '3600' } }, busy);
  const { summary } = await mirror.pass();
  expect(summary).toMatchObject({ pulled: 5, failed: 1 });
});

it('a workbook that moved to a later page while the list was read makes it be read again', async () => {
  const { service, mirror } = await startPair({ pageSize: 2 });
  const files = { 'a.xlsx': 'a', 'b.xlsx': 'b', 'c.xlsx': 'c', 'd.xlsx': 'd', 'x.csv': 'x' };
  const repository = service.addRepository('Accounting', files);
  const timeOf = (row: unknown): string => /"created_at":"[^"]*"/.exec(JSON.stringify(row))?.[0] ?? '';
  // The workbook that changed last comes last.
  service.knobs.arrange = (rows) => rows.toSorted((a, b) => timeOf(a).localeCompare(timeOf(b)));
  await mirror.pass();
  service.knobs.afterPage = () => {
    service.knobs.afterPage = null;
    service.write(repository, 'main', 'a.xlsx', 'a2');
  };
  await mirror.exactPass(later(1));
  const listed = (await mirror.manifest('Accounting/main')).files.filter(({ workbook }) => workbook);
  expect(listed.map(({ path }) => path)).toEqual(['a.xlsx', 'b.xlsx', 'c.xlsx', 'd.xlsx']);
});

it('a list of doubtful length verifies although its bytes differ with each request', async () => {
  const { service, mirror } = await startPair({ countOffset: 1 });
  service.addRepository('Accounting', { 'a.xlsx': 'a' });
  let requests = 0;
  service.knobs.listedAs = () => ({ request: (requests += 1) });
  expect((await mirror.exactPass()).exitCode).toBe(0);
});

/** A mirror of a repository whose branch `draft` was deleted since the last pass. */
async function withoutDraft() {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('git.example/x/plan.git', { 'a.xlsx': 'a' });
  service.fork(repository, 'main', 'draft');
  service.write(repository, 'draft', 'a.xlsx', 'a2');
  await mirror.pass();
  repository.branches.delete('draft');
  return { service, mirror };
}

const DELETED = { id: 'd'.repeat(40), branch: 'main', action: 'delete', created_at: null, status: 'success' };

describe('a row that says that a workbook was deleted', () => {
  it('gives a file that is still there no version', async () => {
    const { service, mirror, repository } = await startMirrored('Accounting', {
      'a.xlsx': 'a',
      'c.xlsx': 'c',
    });
    service.knobs.listedAs = (path) => (path === 'c.xlsx' ? { version: DELETED } : {});
    for (const hours of [1, 2, 3, 4]) await mirror.pass(later(hours));
    service.write(repository, 'main', 'a.xlsx', 'a2');
    expect((await mirror.exactPass(later(5))).exitCode).toBe(0);
  });

  it('does not keep a branch that is gone', async () => {
    const { service, mirror } = await withoutDraft();
    const version = { ...DELETED, branch: 'draft' };
    service.knobs.arrange = (rows) => rows.flatMap((row) => [row, Object.assign({}, row, { version })]);
    for (const hours of [1, 2, 3]) await mirror.pass(later(hours));
    expect(Object.keys(await mirror.stamps())).not.toContain('git.example/x/plan.git/draft');
  });
});

it('a branch leaves although the service fails for the contents of the default branch', async () => {
  const { service, mirror } = await withoutDraft();
  service.fault = (path) =>
    path.includes('/contents') && !path.includes('branch=') ? { kind: 'status', status: 500 } : null;
  for (const hours of [1, 2, 3]) await mirror.pass(later(hours));
  await mirror.expectExact();
});

it('a workbook that is there only during a pull leaves in the next pass', async () => {
  const { service, mirror, repository } = await startMirrored('Accounting', { 'a.xlsx': 'a', 'c.txt': 'c' });
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.knobs.beforeDownload = () => {
    service.knobs.beforeDownload = null;
    service.write(repository, 'main', 'b.xlsx', 'b');
  };
  await mirror.pass(later(1));
  service.remove(repository, 'main', 'b.xlsx');
  await mirror.exactPass(later(2));
});

describe('a folder around everything', () => {
  const WRAPPED = { v1: '404', leadingFolder: 'plan-1', etag: 'strong', conditional: true } as const;

  it('is looked for again, although nothing was modified, unless the service has an answer for every path', async () => {
    const { service, mirror } = await startPair(WRAPPED);
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'notes.txt': 'n' });
    service.fault = (path) => (path.includes('/contents/') ? { kind: 'json' } : null);
    await mirror.pass();
    expect((await mirror.pass()).results[0]?.downloadedBytes).toBe(0);
    service.write(repository, 'main', 'notes.txt', 'n2');
    service.fault = (path) => (path.includes('/contents/') ? { kind: 'status', status: 404 } : null);
    await mirror.pass();
    service.fault = null;
    await mirror.exactPass();
    expect((await mirror.pass()).results[0]?.downloadedBytes).toBe(0);
  });

  it('is found if the service gives only workbooks by their paths', async () => {
    const { service, mirror } = await startPair(WRAPPED);
    service.addRepository('Accounting', { 'a.txt': 'a', 'b.txt': 'b', 'c.txt': 'c', 'plan.xlsx': 'p' });
    service.fault = (path) => (path.includes('.txt') ? { kind: 'status', status: 404 } : null);
    await mirror.exactPass();
  });

  it('is not put around a published tree because maintenance begins', async () => {
    const { service, mirror, repository } = await startMirrored(
      'Plan',
      { 'a.xlsx': 'a', 'b.xlsx': 'b' },
      {},
      WRAPPED,
    );
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.fault = (path) => (path.includes('/contents/') ? { kind: 'html' } : null);
    await mirror.exactPass();
    service.knobs.leadingFolder = null;
    for (const path of ['a.xlsx', 'b.xlsx']) {
      service.write(repository, 'main', `moved/${path}`, path);
      service.remove(repository, 'main', path);
    }
    await mirror.pass();
    service.fault = null;
    await mirror.exactPass();
  });
});
