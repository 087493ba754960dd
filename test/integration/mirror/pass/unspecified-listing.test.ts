import { describe, expect, it } from 'vitest';

import type { FakeKnobs, FakeService } from '../../../support/fake-service.ts';
import { startPair, treeOf } from '../../../support/mirror-harness.ts';

function seed(service: FakeService): void {
  service.addRepository('git.example.com/org/plan.git', { 'a.xlsx': 'a', 'b.xlsx': 'b', 'c.xlsm': 'c' });
  service.addRepository('Accounting', { 'd.xlsx': 'd', 'e.xlsb': 'e' });
}

describe('joining repositories and workbooks', () => {
  it('joins by full name', async () => {
    const { service, mirror } = await startPair();
    seed(service);
    await mirror.pass();
    await mirror.expectExact();
    expect((await mirror.manifest('Accounting/main')).files[0]?.workbook).toMatchObject({
      id: 'Accounting/d.xlsx',
    });
  });

  it('joins by id, if an installation sends that', async () => {
    const { service, mirror } = await startPair({ integration: 'id' });
    seed(service);
    await mirror.pass();
    await mirror.expectExact();
  });

  it('mirrors everything else beside workbooks of a repository that is not listed', async () => {
    const { service, mirror } = await startPair({ unlistedIntegrations: ['git.example.com/ghost.git'] });
    seed(service);
    const report = await mirror.pass();
    expect(report.exitCode).toBe(0);
    await mirror.expectExact();
    expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
    await mirror.pass();
    expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
  });

  it.each(['absent', 'empty-archive'] as const)(
    'mirrors everything else beside a repository without any branch (%s)',
    async (emptyRepository) => {
      const { service, mirror } = await startPair({ emptyRepository });
      seed(service);
      service.addRepository('Empty');
      const report = await mirror.pass();
      expect(report.exitCode).toBe(0);
      await mirror.expectExact();
    },
  );

  it('mirrors a repository that holds files and no workbook, as HEAD', async () => {
    const { service, mirror } = await startPair();
    seed(service);
    service.addRepository('Texts', { 'readme.md': 'r', 'docs/x.txt': 'x' });
    await mirror.pass();
    await mirror.expectExact();
    expect(await mirror.targets()).toContain('Texts/HEAD');
  });
});

describe('fields', () => {
  const variations: readonly [string, Partial<FakeKnobs>][] = [
    ['has microseconds', { microseconds: true }],
    ['has whole seconds', { microseconds: false }],
    ['has unknown fields', { extraFields: true }],
    ['lacks optional fields', { missingFields: true }],
    ['lacks optional fields and has unknown ones', { missingFields: true, extraFields: true }],
  ];
  it.each(variations)('mirrors exactly if an answer %s', async (_name, knobs) => {
    const { service, mirror } = await startPair(knobs);
    seed(service);
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expect(service.takeDownloads()).toStrictEqual([]);
  });
});

describe('pages', () => {
  it.each(['absolute', 'path', 'query', 'other-host', 'without-prefix'] as const)(
    'follows a next that is given as %s',
    async (next) => {
      const { service, mirror } = await startPair({ next, pageSize: 2 });
      seed(service);
      await mirror.pass();
      await mirror.expectExact();
      const pages = service.takeRequests().filter((request) => request.includes('workbooks'));
      expect(pages).toStrictEqual([
        'GET /api/v1/workbooks',
        'GET /api/v1/workbooks?page=2',
        'GET /api/v1/workbooks?page=3',
      ]);
    },
  );

  it('reads again when a workbook was added while the pages were read', async () => {
    const { service, mirror } = await startPair({ pageSize: 2 });
    seed(service);
    let isDone = false;
    service.knobs.afterPage = () => {
      const [repository] = service.repositories;
      if (!isDone && repository !== undefined) service.write(repository, 'main', 'late.xlsx', 'late');
      isDone = true;
    };
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expect(service.takeDownloads()).toStrictEqual([]);
  });

  it('ends the pass and touches nothing when the pages never agree', async () => {
    const { service, mirror } = await startPair({ pageSize: 2 });
    seed(service);
    await mirror.pass();
    const before = await mirror.stamps();
    let number = 0;
    service.knobs.afterPage = () => {
      const [repository] = service.repositories;
      number += 1;
      if (repository !== undefined) service.write(repository, 'main', `more-${number}.xlsx`, 'more');
      if (number > 100) service.knobs.afterPage = null;
    };
    expect(await mirror.failure()).toMatchObject({ code: 'listing.inconsistent', action: 'retry' });
    expect(await mirror.stamps()).toStrictEqual(before);
  });

  it.each([-1, 1, 1000])('mirrors exactly if the count is always off by %i', async (countOffset) => {
    const { service, mirror } = await startPair({ pageSize: 2, countOffset });
    seed(service);
    await mirror.pass();
    await mirror.expectExact();
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expect(service.takeDownloads()).toStrictEqual([]);
  });

  it('mirrors exactly if a row always occurs twice', async () => {
    const { service, mirror } = await startPair({ pageSize: 2, duplicateRows: true });
    seed(service);
    await mirror.pass();
    await mirror.expectExact();
  });

  it('does not accept a list with a wrong count as proof that a branch is deleted', async () => {
    const { service, mirror } = await startPair({ countOffset: 1 });
    const repository = service.addRepository('Accounting', { 'd.xlsx': 'd' });
    service.fork(repository, 'main', 'dev');
    await mirror.pass();
    repository.branches.delete('dev');
    for (let pass = 0; pass < 4; pass += 1) await mirror.pass();
    expect(await mirror.tree('Accounting/dev')).toStrictEqual(treeOf({ 'd.xlsx': 'd' }));
  });
});
