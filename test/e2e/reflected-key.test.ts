import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { API_KEY, API_TOKEN, FakeService } from '../support/fake-service.ts';
import { run, variablesOf } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

it('a key that the service puts into the address of a login page is neither shown nor kept', async () => {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  service.addRepository('Accounting', { 'a.xlsx': 'a' });
  const directory = await temporaryFolder();
  const settings = variablesOf(service.settingsFor(directory));
  const shown: string[] = [];
  const show = async (...args: readonly string[]): Promise<void> => {
    const { stdout, stderr } = await run(args, settings);
    shown.push(stdout, stderr);
  };
  for (const part of ['/contents', '/v1/workbooks', '/repos']) {
    service.fault = (path) => {
      if (path.includes('/sso/')) return { kind: 'html' };
      return path.includes(part) ? { kind: 'redirect', to: `/sso/${API_KEY}/${API_TOKEN}` } : null;
    };
    await show('sync');
    await show('status', '--json');
  }
  await show('repos', 'list');
  await show('plan');
  expect(shown.join('\n')).toContain('/sso/[secret]/[secret]');
  const folder = join(directory, '.workbook-mirror');
  for (const name of (await readdir(folder)).filter((each) => each.startsWith('state'))) {
    shown.push(await readFile(join(folder, name), 'latin1'));
  }
  const holding = shown.filter((text) => text.includes(API_KEY) || text.includes(API_TOKEN));
  expect(holding.map((text) => text.slice(0, 500))).toStrictEqual([]);
}, 60_000);
