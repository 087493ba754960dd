import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { type FakeKnobs, FakeService, type ReferenceForm } from '../../../support/fake-service.ts';
import { MirrorHarness } from '../../../support/mirror-harness.ts';

const FORMS: readonly ReferenceForm[] = ['id', 'full_name_encoded', 'full_name', 'name'];

const installation = fc.record({
  references: fc.subarray([...FORMS], { minLength: 1 }).map((forms) => new Set(forms)),
  unacceptedReference: fc.constantFrom('absent', 'html-404', 'html-200', 'forbidden', 'unprocessable'),
  rows: fc.constantFrom('per-branch', 'latest-only'),
  integration: fc.constantFrom('full_name', 'id'),
  leadingFolder: fc.constantFrom(null, 'plan-abc', 'Reports'),
  compression: fc.constantFrom('stored', 'deflated'),
  folderEntries: fc.boolean(),
  zip64: fc.boolean(),
  dataDescriptors: fc.boolean(),
  length: fc.constantFrom('content-length', 'chunked'),
  contentEncoding: fc.constantFrom(null, 'gzip'),
  next: fc.constantFrom('absolute', 'path', 'query', 'other-host', 'without-prefix'),
  pageSize: fc.constantFrom(1, 3, 100),
  pageBeyondEnd: fc.constantFrom('404', 'empty'),
  countOffset: fc.constantFrom(0, 0, 1, -1),
  duplicateRows: fc.boolean(),
  malformedWorkbooks: fc.constantFrom([], [null, {}]),
  malformedRepositories: fc.constantFrom([], [null, { id: 7 }]),
  unlistedIntegrations: fc.constantFrom([], ['git.example.com/ghost.git']),
  etag: fc.constantFrom('strong', 'weak', 'none'),
  conditional: fc.boolean(),
  absentStatus: fc.constantFrom(204, 400, 404),
  emptyRepository: fc.constantFrom('absent', 'empty-archive'),
  microseconds: fc.boolean(),
  extraFields: fc.boolean(),
  missingFields: fc.boolean(),
} satisfies Partial<{ [Name in keyof FakeKnobs]: fc.Arbitrary<FakeKnobs[Name]> }>);

const DAY_MS = 25 * 3_600_000;

/** True if the lists of an installation are complete, so that a missing row means a deletion. */
function provesAbsence(knobs: FakeKnobs): boolean {
  const { absentStatus, countOffset, duplicateRows, malformedWorkbooks, malformedRepositories } = knobs;
  return (
    absentStatus === 404 &&
    countOffset === 0 &&
    !duplicateRows &&
    malformedWorkbooks.length === 0 &&
    malformedRepositories.length === 0
  );
}

/** Expects that the list alone verified everything, unless a row on two pages shows that others may be on none. */
function expectNoDownload(service: FakeService): void {
  const downloads = service.takeDownloads();
  if (!service.knobs.duplicateRows) expect(downloads).toStrictEqual([]);
}

/** A service's life, with a pass after every step, each of which must leave an exact mirror. */
async function live(knobs: Partial<FakeKnobs>, publish: string): Promise<void> {
  const service = await FakeService.start(knobs);
  const mirror = await MirrorHarness.open(service, { PUBLISH: publish });
  try {
    const plan = service.addRepository('git.example.com/org/plan.git', {
      'Reports/a.xlsx': 'a',
      'Reports/deep/b.xlsm': 'b',
      'Reports/readme.md': 'r',
    });
    const accounts = service.addRepository('Accounting', { 'd.xlsx': 'd', 'x/e.xlsb': 'e' });
    service.addRepository('Texts', { 'readme.md': 'r' });
    service.addRepository('Empty');
    await mirror.exactPass();

    const before = await mirror.stamps();
    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expectNoDownload(service);
    expect(await mirror.stamps()).toStrictEqual(before);

    service.fork(accounts, 'main', 'dev');
    service.write(accounts, 'dev', 'd.xlsx', 'd on dev');
    service.write(plan, 'main', 'Reports/a.xlsx', 'a2');
    service.remove(plan, 'main', 'Reports/readme.md');
    await mirror.exactPass();

    service.write(accounts, 'main', 'x/e.xlsb', 'e2');
    service.write(accounts, 'dev', 'x/new.xlsx', 'n');
    service.renameRepository(plan, 'git.example.org/moved/forecast.git');
    await mirror.restart();
    await mirror.exactPass();

    if (provesAbsence(service.knobs)) {
      const main = new Map(accounts.branches.get('main')?.files);
      const expected = (): ReturnType<FakeService['expectedTrees']> => ({
        ...service.expectedTrees(),
        'Accounting/main': main,
      });
      accounts.branches.delete('dev');
      for (const aheadMs of [0, DAY_MS, 0]) await mirror.pass({ aheadMs });
      await mirror.expectExact(expected());

      service.removeRepository(plan);
      service.addRepository('git.example.org/moved/forecast.git', {
        'Reports/z.xlsx': 'z',
        'Reports/b': 'b',
      });
      for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
      await mirror.expectExact(expected());
    }

    service.takeRequests();
    await mirror.pass({ trigger: 'schedule' });
    expectNoDownload(service);
    expect(service.credentialFaults()).toStrictEqual([]);
  } finally {
    await mirror.close();
    await service.close();
  }
}

it('any combination of what installations do gives an exact mirror through a life', async () => {
  await fc.assert(fc.asyncProperty(installation, fc.constantFrom('auto', 'exchange', 'rename'), live), {
    seed: 20_260_102,
    numRuns: 60,
    endOnFailure: true,
  });
});
