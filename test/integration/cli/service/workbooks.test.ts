import { expect, it } from 'vitest';

import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { startCommands } from '../../../support/mirror-commands.ts';

it('the list of workbooks has those that match all flags', async () => {
  const { service, run } = await startCommands();
  const plan = service.addRepository('Org/Plan', { 'plan.xlsx': 'a', 'Q1/Bücher.xlsx': 'b' });
  service.write(plan, 'feature/x', 'plan.xlsx', 'd');
  service.addRepository('Sales', { 'Plan 2026.xlsx': 'e' });
  const list = await run('workbooks', 'list', '--name', '*.xlsx', '--branch', 'main', '--json');
  const rows = JSON.parse(list.stdout) as WorkbookRow[];
  expect(rows.map(({ path }) => path).sort()).toEqual(['Plan 2026.xlsx', 'Q1/Bücher.xlsx', 'plan.xlsx']);
  const none = await run('workbooks', 'list', '--author', 'nobody');
  expect(none).toMatchObject({ exitCode: 0, stdout: '0 workbooks.\n' });
  for (const [flag, value] of [
    ['--name', ''],
    ['--since', 'x'],
  ] as const)
    expect((await run('workbooks', 'list', flag, value)).exitCode).toBe(2);
});
