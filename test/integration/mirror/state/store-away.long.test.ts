import { expect, it, onTestFinished } from 'vitest';

import { FakeService } from '../../../support/fake-service.ts';
import { run, start, variablesOf } from '../../../support/program.ts';
import { hasRedis, startRedis } from '../../../support/stores.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function settingsFor(state: string): Promise<Record<string, string>> {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  service.addRepository('Accounting', { 'notes.txt': 'a note' });
  service.addRepository('Sales', { 'notes.txt': 'a note' });
  return {
    ...variablesOf(service.settingsFor(await temporaryFolder())),
    WORKBOOK_MIRROR_STATE: state,
  };
}

const FAILURE = /The state store fails/g;

it('a command reports once that the state server is unreachable', async () => {
  const settings = await settingsFor('redis://127.0.0.1:1');
  const synced = await run(['sync'], settings);
  expect(synced.exitCode).toBe(0);
  expect(synced.stderr.match(FAILURE)).toHaveLength(1);
  const status = await run(['status'], settings);
  expect((status.stderr + status.stdout).match(FAILURE)).toHaveLength(1);
});

it.skipIf(!hasRedis)('a daemon reports it once, however many passes follow', async () => {
  const redis = await startRedis();
  const settings = await settingsFor(redis.address);
  const daemon = start(['run'], settings);
  await daemon.prints(/"pass\.finished"/);
  redis.kill('SIGKILL');
  for (let passes = 0; passes < 3; passes += 1) {
    const already = daemon.stdout().match(/"pass\.finished"/g)?.length ?? 0;
    daemon.child.kill('SIGHUP');
    await daemon.prints(new RegExp(`(?:"pass\\.finished"[^]*){${already + 1}}`));
  }
  expect(daemon.stdout().match(/"state\.failed"/g)).toHaveLength(1);
  expect(daemon.stdout()).not.toContain('"state.recovered"');
});
