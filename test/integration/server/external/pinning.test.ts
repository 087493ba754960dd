import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import { initialise } from '../../../../src/server/git/bare.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { askRemote, remoteOf } from '../../../../src/server/external/remote.ts';
import { startGitHttpServer } from '../../../support/git-http-server.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const lookups: string[] = [];
let addresses: string[] = [];

// A name that nothing else knows.
vi.mock('node:dns/promises', () => ({
  lookup: (name: string) => {
    lookups.push(name);
    return Promise.resolve(addresses.map((address) => ({ address, family: 4 })));
  },
}));

it('the name of a host is looked up once for each command, even if the server redirects', async () => {
  const root = await temporaryFolder();
  const git = new Git();
  onTestFinished(() => git.stop());
  await initialise(git, join(root, 'plan.git'));
  const server = await startGitHttpServer(root);
  const url = `http://Git.Invalid:${server.port}/plan.git`;
  const remote = remoteOf({ url, source: url }, 'any', join(root, 'no credentials'));

  addresses = ['169.254.169.254'];
  await expect(askRemote(git, remote)).rejects.toThrow(/link-local/);
  addresses = ['169.254.169.254', '127.0.0.1'];
  expect((await askRemote(git, remote)).lines).toEqual([]);
  expect(lookups).toEqual(['git.invalid', 'git.invalid']);

  server.intercept = ({ url: asked = '' }, response) => {
    response.writeHead(301, { location: `/new${asked}` }).end();
    return true;
  };
  await expect(askRemote(git, remote)).rejects.toThrow(
    expect.objectContaining({ hint: expect.stringContaining('/new/plan.git') as unknown }) as Error,
  );
  expect(lookups).toHaveLength(3);
});
