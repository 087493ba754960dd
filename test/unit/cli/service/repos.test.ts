import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { repositoryOf } from '../../../../src/cli/service/repos.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function passwordIn(text: string): Promise<string> {
  const file = join(await temporaryFolder(), 'password');
  await writeFile(file, text);
  return file;
}

describe('repos create', () => {
  it('sends the values of the flags', async () => {
    const passwordFile = await passwordIn('secret\r\n');
    expect(await repositoryOf({ name: 'A' })).toEqual({ name: 'A' });
    expect(await repositoryOf({ url: 'u' })).toEqual({ url: 'u' });
    const password = 'secret';
    const sent = await repositoryOf({ url: 'u', username: 'n', passwordFile });
    expect(sent).toEqual({ url: 'u', username: 'n', password });
  });

  it.each<[Parameters<typeof repositoryOf>[0]]>([
    [{}],
    [{ url: 'u', username: 'n' }],
    [{ url: 'u', passwordFile: 'f' }],
  ])('refuses %j', async (flags) => {
    await expect(repositoryOf(flags)).rejects.toMatchObject({ code: 'usage.invalid' });
  });

  it('refuses a file without a password, and one that is too long for a password', async () => {
    for (const text of ['\n', 'x'.repeat(70_000)]) {
      const refused = repositoryOf({ url: 'u', username: 'n', passwordFile: await passwordIn(text) });
      await expect(refused).rejects.toMatchObject({ code: 'usage.invalid' });
    }
  });
});
