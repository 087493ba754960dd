import { expect, it } from 'vitest';
import { noteForRepair } from '../../../src/app/drift-notes.ts';
import { driftNotesOf, startPair } from '../../support/mirror-harness.ts';

it('are found by the paths of their trees, also of two branches that differ in case alone', async () => {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('Plan', { 'a.xlsx': 'a' });
  service.write(repository, 'Main', 'b.xlsx', 'b');
  await mirror.pass();
  const targets = await mirror.targets();
  expect(targets).toEqual(['Plan/Main', expect.stringMatching(/^Plan\/main~/)]);
  for (const path of targets) await noteForRepair(mirror.context, path, [], Date.now());
  expect([...(await driftNotesOf(mirror)).keys()].sort()).toEqual(targets);
});
