import { describe, expect, it } from 'vitest';

import { repositoryOf } from '../../../../src/cli/service/repos.ts';

describe('repos create', () => {
  const read = (): Promise<string> => Promise.resolve('secret\r\n');

  it('sends the values of the flags', async () => {
    expect(await repositoryOf({ name: 'A' }, read)).toEqual({ name: 'A' });
    expect(await repositoryOf({ url: 'u' }, read)).toEqual({ url: 'u' });
    expect(await repositoryOf({ url: 'u', username: 'n', passwordFile: 'f' }, read)).toEqual({
      url: 'u',
      username: 'n',
      password: 'secret',
    });
  });

  it.each<[Parameters<typeof repositoryOf>[0], string]>([
    [{}, 'p'],
    [{ name: 'A', url: 'u' }, 'p'],
    [{ url: 'u', username: 'n' }, 'p'],
    [{ url: 'u', passwordFile: 'f' }, 'p'],
    [{ name: 'A', username: 'n', passwordFile: 'f' }, 'p'],
    [{ url: 'u', username: 'n', passwordFile: 'f' }, ''],
  ])('refuses %j with the password %j', async (flags, password) => {
    const refused = repositoryOf(flags, () => Promise.resolve(`${password}\n`));
    await expect(refused).rejects.toMatchObject({ code: 'usage.invalid' });
  });
});
