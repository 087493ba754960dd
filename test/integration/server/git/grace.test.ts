import { join } from 'node:path';

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { initialise } from '../../../../src/server/git/bare.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let git: Git;
let gitDirectory = '';

/** Input without an end, until it breaks. */
async function* input(broken: Promise<void>): AsyncIterable<Uint8Array> {
  yield Buffer.from('\n');
  await broken;
  throw new Error('broken off');
}

beforeEach(async () => {
  git = new Git();
  onTestFinished(() => git.stop());
  gitDirectory = join(await temporaryFolder(), 'a.git');
  await initialise(git, gitDirectory);
});

describe('a git program that is given time to end', () => {
  const reading = ['cat-file', '--batch'];
  const stubborn = ['-c', 'alias.wait=!sleep 1000', 'wait'];

  it.each(['its input breaks', 'it is aborted'])('ends normally when %s', async (why) => {
    const ending = new AbortController();
    let break_ = (): void => undefined;
    const broken = new Promise<void>((resolve) => {
      break_ = resolve;
    });
    const { stdout, exit, fed } = git.start(gitDirectory, reading, {
      input: input(broken),
      signal: ending.signal,
      graceMs: 600_000,
    });
    stdout.resume();
    if (why === 'it is aborted') ending.abort();
    else break_();
    expect((await exit).code).toBe(0);
    break_();
    expect(await fed).toEqual(new Error('broken off'));
  });

  it('is killed when it does not end', async () => {
    const { stdout, exit } = git.start(gitDirectory, stubborn, { signal: AbortSignal.abort(), graceMs: 50 });
    stdout.resume();
    expect((await exit).code).not.toBe(0);
  });

  it('is ended immediately without such a time', async () => {
    const { stdout, exit } = git.start(gitDirectory, stubborn, { signal: AbortSignal.abort() });
    stdout.resume();
    expect((await exit).code).not.toBe(0);
  });

  it('is reported as ended by the end of the service', async () => {
    const running = git.text(gitDirectory, stubborn, { isLong: true });
    void git.stop();
    await expect(running).rejects.toMatchObject({ code: 'service.failed' });
  });
});
