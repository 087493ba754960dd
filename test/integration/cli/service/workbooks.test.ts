import { expect, it } from 'vitest';

import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { startCommands } from '../../../support/mirror-commands.ts';

it('the list of workbooks has the workbooks of every branch', async () => {
  const { service, run } = await startCommands();
  const plan = service.addRepository('Org/Plan', { 'plan.xlsx': 'a', 'Q1/Bücher.xlsx': 'b' });
  service.write(plan, 'feature/x', 'plan.xlsx', 'd');
  const list = await run('workbooks', 'list', '--json');
  const rows = JSON.parse(list.stdout) as WorkbookRow[];
  const names = rows.map(({ path, branch }) => `${branch}: ${path}`);
  expect(names.sort()).toEqual(['feature/x: plan.xlsx', 'main: Q1/Bücher.xlsx', 'main: plan.xlsx']);
});
