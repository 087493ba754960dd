import { expect, it } from 'vitest';

import type { FakeService } from '../../../support/fake-service.ts';
import { startPair } from '../../../support/mirror-harness.ts';

function seed(service: FakeService): void {
  service.addRepository('git.example.com/org/plan.git', { 'a.xlsx': 'a', 'b.xlsx': 'b', 'c.xlsm': 'c' });
  service.addRepository('Accounting', { 'd.xlsx': 'd', 'e.xlsb': 'e' });
}

it('workbooks of a repository that is not listed are reported once, and everything else is mirrored', async () => {
  const { service, mirror } = await startPair({ unlistedIntegrations: ['git.example.com/ghost.git'] });
  seed(service);
  const report = await mirror.pass();
  expect(report.exitCode).toBe(0);
  await mirror.expectExact();
  expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
  await mirror.pass();
  expect(mirror.eventsOf('listing.problem')).toHaveLength(1);
});

it('pages that never agree end the pass, and nothing is touched', async () => {
  const { service, mirror } = await startPair({ pageSize: 2 });
  seed(service);
  await mirror.pass();
  const before = await mirror.stamps();
  let number = 0;
  service.knobs.afterPage = () => {
    number += 1;
    service.write(service.named(), 'main', `more-${number}.xlsx`, 'more');
    if (number > 100) service.knobs.afterPage = null;
  };
  expect(await mirror.failure()).toMatchObject({ code: 'listing.inconsistent', action: 'retry' });
  expect(await mirror.stamps()).toStrictEqual(before);
});
