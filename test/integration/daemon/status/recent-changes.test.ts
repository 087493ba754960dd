import { expect, it } from 'vitest';

import type { TargetStatus } from '../../../../src/app/target-status.ts';
import { createRecentChanges } from '../../../../src/daemon/status/recent-changes.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { startCommands } from '../../../support/mirror-commands.ts';

it('the last ten changes are read again only when a target changed or left', async () => {
  const { service, directory, command } = await startCommands();
  const changes = createRecentChanges(layoutOf(directory));
  const recent = async (): Promise<readonly { readonly target: string; readonly kind: string }[]> => {
    const { targets } = JSON.parse((await command(['status', '--json'])).stdout) as {
      targets: TargetStatus[];
    };
    return changes(targets);
  };
  const repositories = Array.from({ length: 12 }, (_, at) =>
    service.addRepository(`Repository ${at}`, { 'plan.xlsx': `${at}` }),
  );
  const [first, second] = repositories;
  if (first === undefined || second === undefined) throw new Error('no repository');
  await command(['sync']);
  const before = await recent();
  expect(before.map(({ kind }) => kind)).toEqual(Array.from({ length: 10 }, () => 'published'));
  expect(await recent()).toBe(before);

  service.write(first, 'main', 'plan.xlsx', 'more');
  await command(['sync']);
  expect((await recent())[0]).toMatchObject({
    target: 'Repository 0/main',
    kind: 'changed',
    first: [{ change: 'changed', path: 'plan.xlsx', author: 'Änne Größe' }],
  });

  service.removeRepository(second);
  for (let pass = 0; pass < 4; pass += 1) await command(['sync']);
  expect((await recent())[0]).toMatchObject({ target: 'Repository 1/main', kind: 'retired' });
});
