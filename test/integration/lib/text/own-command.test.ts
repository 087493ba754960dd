import { expect, it } from 'vitest';

import { run } from '../../../support/program.ts';

it('a command that the program names works when copied', async () => {
  const { stderr } = await run(['status', '--directory', '/not/there']);
  const [, command = ''] = /`workbook-mirror (sync [^`]*)`/.exec(stderr) ?? [];
  expect(command).toBe('sync --directory /not/there');
});
