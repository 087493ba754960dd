import { describe, expect, it, onTestFinished } from 'vitest';

import { emptyRecord, type TargetRecord } from '../../../../src/mirror/plan/record.ts';
import { openState, type State } from '../../../../src/mirror/state/state.ts';
import { hasRedis, postgres, startPostgres, startRedis } from '../../../support/stores.ts';

async function stateAt(address: string, directoryId = 'directory-1'): Promise<State> {
  const state = await openState({
    address,
    file: '/nonexistent/state.db',
    directoryId,
    sharedService: 'https://workbooks.example.com/api',
    readOnly: false,
    onReset: () => {},
    listener: { onFailed: () => {}, onRecovered: () => {} },
  });
  onTestFinished(() => state.close());
  return state;
}

const records = (count: number): TargetRecord[] =>
  Array.from({ length: count }, (_, index) => ({
    ...emptyRecord(
      { repositoryId: `id-${index}`, branch: `feature/${'ü'.repeat(index % 120)}` },
      'Accounting',
    ),
    missingPasses: index,
  }));

async function expectWorks(address: string): Promise<void> {
  const state = await stateAt(address);
  const other = await stateAt(address, 'directory-2');
  expect((await state.records()).size).toBe(0);
  await state.saveRecords(records(150));
  expect(
    [...(await state.records()).values()].map((each) => each.missingPasses).sort((a, b) => a - b),
  ).toEqual(records(150).map((each) => each.missingPasses));
  expect((await other.records()).size).toBe(0);
  await state.forgetRecords(records(149));
  expect([...(await state.records()).values()]).toEqual(records(150).slice(149));
  await state.saveReportedFailures({ key: { versionId: 'v', count: 2 } });
  expect(await state.reportedFailures()).toEqual({ key: { versionId: 'v', count: 2 } });
  expect(await other.reportedFailures()).toEqual({});
  expect(await state.lastPass()).toBeNull();
  await state.saveInstallation({ baseUrl: 'x', referenceForm: 'id' });
  expect(await (await stateAt(address)).installation()).toEqual({ baseUrl: 'x', referenceForm: 'id' });
}

describe('the state cache in another program', () => {
  it.skipIf(!hasRedis)('works in Redis', async () => {
    await expectWorks((await startRedis()).address);
  });

  it.skipIf(!hasRedis)('works in Valkey’s address form', async () => {
    await expectWorks((await startRedis()).address.replace('redis:', 'valkey:'));
  });

  it.skipIf(postgres === null)('works in PostgreSQL', async () => {
    await expectWorks((await startPostgres(postgres ?? '')).address);
  });

  it('reports a failure, rather than an empty cache, if it was never reachable', async () => {
    const state = await stateAt('redis://127.0.0.1:1');
    await expect(state.records()).rejects.toMatchObject({ code: 'state.unavailable' });
    expect(await state.saveRecords(records(1))).toBe(false);
  });

  it.skipIf(!hasRedis)('reports it, too, when it becomes unreachable', async () => {
    const redis = await startRedis();
    const state = await stateAt(redis.address);
    await state.saveRecords(records(1));
    redis.kill('SIGKILL');
    await expect(state.records()).rejects.toMatchObject({ code: 'state.unavailable' });
    expect(await state.reportedFailures()).toBeNull();
  });
});
