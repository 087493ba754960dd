import { expect, it } from 'vitest';

import type { LogEntry } from '../../../../src/app/change-log.ts';
import { runHere } from '../../../support/in-process.ts';
import { startCommands } from '../../../support/mirror-commands.ts';

const FILES = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`${at}.xlsx`, `${at}`]));

it('log lists changes, holds, approvals and retirements, without the service', async () => {
  const { service, directory, command } = await startCommands();
  const settings = { GUARD_TARGETS: 'off' };
  const log = async (...args: string[]): Promise<string[]> => {
    const { stdout, exitCode } = await runHere(['log', '--json', ...args], { DIRECTORY: directory });
    expect(exitCode).toBe(0);
    return (JSON.parse(stdout) as LogEntry[]).map(({ target, kind, files, differences }) =>
      [target, kind, files, ...differences.map(({ change, path }) => `${change} ${path}`)].join(' '),
    );
  };
  const sync = (): Promise<unknown> => command(['sync'], settings);

  const accounting = service.addRepository('Accounting', FILES);
  const sales = service.addRepository('Sales', { 'plan.xlsx': 's' });
  await sync();
  service.write(accounting, 'main', '1.xlsx', 'more');
  await sync();
  for (const path of Object.keys(FILES).slice(2)) service.remove(accounting, 'main', path);
  await sync();
  expect((await log('Accounting/main'))[0]).toBe('Accounting/main held 10');
  await command(['approve', '--all', '--yes']);
  await sync();
  service.removeRepository(sales);
  for (let pass = 0; pass < 4; pass += 1) await sync();

  const removed = Object.keys(FILES).slice(2);
  expect(await log()).toEqual([
    'Sales/main retired 1',
    'Accounting/main approved 8',
    `Accounting/main changed 8 ${removed.map((path) => `removed ${path}`).join(' ')}`,
    'Accounting/main changed 1 changed 1.xlsx',
    expect.stringMatching(/^(?:Accounting\/main published 10|Sales\/main published 1)$/),
    expect.stringMatching(/^(?:Accounting\/main published 10|Sales\/main published 1)$/),
  ]);
  expect(await log('Sal*/*')).toEqual(['Sales/main retired 1', 'Sales/main published 1']);
  expect(await log('--author', 'änne', 'Accounting/main')).toEqual([
    'Accounting/main changed 1 changed 1.xlsx',
  ]);
  expect(await log('--author', 'no such author')).toEqual([]);
  expect(await log('--file', '1.xlsx')).toEqual(['Accounting/main changed 1 changed 1.xlsx']);
  expect(await log('--file', '2.xlsx')).toEqual(['Accounting/main changed 1 removed 2.xlsx']);
  expect(await log('--file', '2.xlsx', '--author', 'änne')).toEqual([]);
  expect(await log('--since', '2000-01-01')).toHaveLength(6);
  expect((await command(['log', 'Accounting/main'])).stdout).toMatch(
    /changed +Accounting\/main\/1\.xlsx .* -> .* Änne Größe/,
  );
  expect((await command(['log', 'Accounting/main'])).stdout).toMatch(
    /removed +Accounting\/main\/2\.xlsx .* last by Änne Größe/,
  );
  expect(await command(['log', 'Acounting/*'])).toMatchObject({ exitCode: 2 });
});
