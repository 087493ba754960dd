import { describe, expect, it } from 'vitest';

import { waitingTargets } from '../../../../src/cli/change/retry.ts';
import { type FakeService, rawZip } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

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
  it('has a pass try the targets that are named, and nothing else that waits', async () => {
    const { mirror } = await quarantined();
    expect(await waitingTargets(mirror.diskSettings, ['mirror/A/main'])).toEqual(['A/main']);
    expect(await mirror.results({ trigger: 'retry', retries: new Set(['A/main']) })).toMatchObject({
      'A/main': { outcome: 'pulled' },
      'B/main': { reason: 'quarantined' },
      'Well/main': { action: 'keep' },
    });
    expect(await waitingTargets(mirror.diskSettings, null)).toEqual(['B/main']);
    expect((await mirror.pass({ trigger: 'schedule', retries: 'all' })).exitCode).toBe(0);
    await mirror.expectExact();
    expect(await waitingTargets(mirror.diskSettings, null)).toEqual([]);
  });

  it('refuses what does not wait, and names what is near', async () => {
    const { mirror } = await quarantined();
    const waiting = (name: string): Promise<unknown> => waitingTargets(mirror.diskSettings, [name]);
    await expect(waiting('Well/main')).rejects.toMatchObject({ code: 'target.unknown' });
    await expect(waiting('a/main')).rejects.toMatchObject({
      hint: 'The nearest that waits is A/main. `workbook-mirror status` lists all of them.',
    });
  });
});
