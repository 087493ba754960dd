import { join } from 'node:path';

import { expect, it } from 'vitest';

import { FakeService } from '../support/fake-service.ts';
import { buildZip } from '../support/zip-builder.ts';
import { run, start, variablesOf } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

it('a target in quarantine is tried within seconds by a running daemon, and by retry itself where none runs', async () => {
  const service = await FakeService.start({});
  service.addRepository('A', { 'plan.xlsx': 'a' });
  const settings = {
    ...variablesOf(service.settingsFor(join(await temporaryFolder(), 'mirrored'))),
    WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
  };
  const bad = buildZip([{ name: '../x', data: 'x' }]);
  service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body: bad } : null);
  const daemon = start(['run'], settings);
  await daemon.prints(/"event":"pass.finished"/);
  const again = await run(['retry', 'A/main'], settings);
  expect({ ...again }).toMatchObject({ exitCode: 0, stdout: 'The daemon makes a pass.\n' });
  await daemon.prints(/"attempts":2/);
  daemon.child.kill('SIGTERM');
  expect((await daemon.ended).exitCode).toBe(0);

  expect((await run(['retry', '--all'], settings)).exitCode).toBe(1);
  service.fault = null;
  const mended = await run(['retry', '--all'], settings);
  expect(mended.exitCode).toBe(0);
  expect(mended.stderr).toContain('A/main: published 1 added');
  expect((await run(['retry', '--all'], settings)).exitCode).toBe(0);
  await service.close();
});
