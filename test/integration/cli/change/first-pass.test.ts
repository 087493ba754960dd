import { expect, it } from 'vitest';

import { startCommands } from '../../../support/mirror-commands.ts';
import { start, variablesOf } from '../../../support/program.ts';

it('during a first pass the number of targets and the queued ones are known', async () => {
  const { service, directory, command } = await startCommands();
  for (const name of ['A', 'B', 'C']) service.addRepository(name, { 'plan.xlsx': name });
  const held = service.addRepository('D', { 'plan.xlsx': 'd' });
  service.write(held, 'feature/x', 'x.xlsx', 'x');
  service.faultContents({ kind: 'silence' }, held);
  const pass = start(['sync', '-v'], variablesOf(service.settingsFor(directory)));
  for (const name of ['A', 'B', 'C']) await pass.prints(new RegExp(`${name}/main: published`));
  const status = await command(['status']);
  expect(status.stdout).toContain('3 of 5 targets mirrored: 3 fresh, 2 late');
  expect(status.exitCode).toBe(1);
  const why = await command(['why', 'D/feature/x']);
  expect(why.stdout).toContain('D/feature%2Fx is late: pending.');
  expect(why.stdout).toMatch(/pull \(never-mirrored\): queued$/m);
  expect(why.stdout).toMatch(/queued since .* to be pulled for the first time/);
  await pass.stop();
  // Unfinished targets must still be mirrored.
  service.fault = null;
  expect((await command(['status'])).exitCode).toBe(1);
  expect((await command(['sync'])).exitCode).toBe(0);
  expect((await command(['status'])).stdout).toContain('5 targets: 5 fresh');
});
