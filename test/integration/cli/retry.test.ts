import { readRetries } from '../../../src/mirror/store/requests.ts';
import { describe, expect, it } from 'vitest';

import { retry } from '../../../src/cli/retry.ts';
import { type FakeService, rawZip } from '../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../support/mirror-harness.ts';

const BAD = rawZip([{ name: '../x', data: 'x' }]);

/** Two targets in quarantine, and one that is well. */
async function quarantined(): Promise<{ service: FakeService; mirror: MirrorHarness }> {
  const { service, mirror } = await startPair();
  for (const name of ['A', 'B', 'Well']) service.addRepository(name, { 'plan.xlsx': name });
  const ids = service.repositories.slice(0, 2).map(({ id }) => id);
  service.fault = (path) =>
    path.includes('/contents') && ids.some((id) => path.includes(id)) ? { kind: 'body', body: BAD } : null;
  expect((await mirror.pass()).exitCode).toBe(1);
  service.fault = null;
  expect(await mirror.results({ trigger: 'schedule' })).toMatchObject({
    'A/main': { reason: 'quarantined' },
    'B/main': { reason: 'quarantined' },
  });
  return { service, mirror };
}

describe('retry', () => {
  it('has the next pass try what is named, and nothing else that waits', async () => {
    const { mirror } = await quarantined();
    expect(await retry(mirror.diskSettings, ['mirror/A/main'])).toMatchObject({ targets: ['A/main'] });
    expect(await mirror.results({ trigger: 'retry' })).toMatchObject({
      'A/main': { outcome: 'pulled' },
      'B/main': { reason: 'quarantined' },
      'Well/main': { action: 'keep' },
    });
    expect(await readRetries(mirror.context.store.layout)).toEqual(new Set());
    expect(await retry(mirror.diskSettings, null)).toMatchObject({ targets: ['B/main'] });
    expect((await mirror.pass({ trigger: 'schedule' })).exitCode).toBe(0);
    await mirror.expectExact();
    expect(await retry(mirror.diskSettings, null)).toMatchObject({ targets: [] });
  });

  it('waits for a pass that comes to its end', async () => {
    const { service, mirror } = await quarantined();
    await retry(mirror.diskSettings, ['A/main']);
    service.fault = () => ({ kind: 'status', status: 500 });
    await mirror.failure({ trigger: 'retry' });
    expect(await readRetries(mirror.context.store.layout)).toEqual(new Set(['A/main']));
    service.fault = null;
    expect(await mirror.results({ trigger: 'schedule' })).toMatchObject({ 'A/main': { outcome: 'pulled' } });
  });

  it('refuses what does not wait, and names what is near', async () => {
    const { mirror } = await quarantined();
    await expect(retry(mirror.diskSettings, ['Well/main'])).rejects.toMatchObject({ code: 'target.unknown' });
    await expect(retry(mirror.diskSettings, ['a/main'])).rejects.toMatchObject({
      hint: 'The nearest that waits is A/main. `workbook-mirror status` lists all of them.',
    });
    expect(await readRetries(mirror.context.store.layout)).toEqual(new Set());
  });
});
