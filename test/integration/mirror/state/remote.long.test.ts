import { describe, expect, it, onTestFinished } from 'vitest';

import { emptyRecord } from '../../../../src/mirror/plan/record.ts';
import { openState, type State } from '../../../../src/mirror/state/state.ts';
import { hasRedis, startRedis } from '../../../support/stores.ts';

async function stateAt(address: string): Promise<State> {
  const state = await openState({
    address,
    file: '/nonexistent/state.db',
    directoryId: 'directory-1',
    sharedService: 'https://workbooks.example.com/api',
    readOnly: false,
    onReset: () => {},
    listener: { onFailed: () => {}, onRecovered: () => {} },
  });
  onTestFinished(() => state.close());
  return state;
}

const RECORD = emptyRecord({ repositoryId: 'id-1', branch: 'main' }, 'Accounting');

describe('the state cache in another program', () => {
  it('reports a failure, rather than an empty cache, if it was never reachable', async () => {
    const state = await stateAt('redis://127.0.0.1:1');
    await expect(state.records()).rejects.toMatchObject({ code: 'state.unavailable' });
    expect(await state.saveRecords([RECORD])).toBe(false);
  });

  it.skipIf(!hasRedis)('reports it, too, when it becomes unreachable', async () => {
    const redis = await startRedis();
    const state = await stateAt(redis.address);
    await state.saveRecords([RECORD]);
    redis.kill('SIGKILL');
    await expect(state.records()).rejects.toMatchObject({ code: 'state.unavailable' });
    expect(await state.read('reported-failures')).toBeNull();
  });
});
