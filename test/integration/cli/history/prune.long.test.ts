import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { saying } from '../../../support/in-process.ts';
import { startCommands } from '../../../support/mirror-commands.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** A mirror of two repositories with two replaced states each. */
async function withHistory() {
  const commands = await startCommands();
  const { service, run } = commands;
  for (const name of ['A', 'B']) service.addRepository(name, { 'plan.xlsx': 'first', 'same.xlsx': 'same' });
  await run('sync');
  for (const text of ['the second', 'third'])
    for (const repository of service.repositories) {
      service.write(repository, 'main', 'plan.xlsx', text);
      await run('sync');
    }
  const listed = async () => {
    const { stdout } = await run('history', 'list', '--json');
    return JSON.parse(stdout) as { target: string; storedBytes: number; leftAtMs: number }[];
  };
  return { ...commands, listed };
}

it('history list shows what each state takes, and the sum', async () => {
  const { run, listed } = await withHistory();
  expect((await listed()).map(({ storedBytes }) => storedBytes)).toEqual([5, 10, 5, 10]);
  expect((await run('history', 'list')).stdout).toMatch(/STORED.*4 states, 30 B stored\n$/s);
  expect((await run('history', 'list', 'B/main')).stdout).toMatch(/2 states, 15 B stored\n$/);
});

describe('history prune', () => {
  it('deletes the states of a target that left before a time, and leaves those after it whole', async () => {
    const { run, listed } = await withHistory();
    const [, second] = await listed();
    const until = new Date((second?.leftAtMs ?? 0) - 1).toISOString();
    const pruned = await run('history', 'prune', 'A/main', '--older-than', until, '--yes');
    expect(pruned.stderr).toMatch(/^A\/main: replaced \S+Z, 5 B\n1 state, 5 B stored\n/);
    expect(pruned).toMatchObject({ exitCode: 0, stdout: 'Deleted 1 of 1 state.\n' });
    expect((await listed()).map(({ target }) => target)).toEqual(['A/main', 'B/main', 'B/main']);
    const folder = join(await temporaryFolder(), 'restored');
    const restored = await run('history', 'restore', 'A/main', 'same.xlsx', 'plan.xlsx', '--to', folder);
    expect(restored, restored.stderr).toMatchObject({ exitCode: 0 });
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('says when nothing is so old, and asks where it can', async () => {
    const { run, listed } = await withHistory();
    const none = await run('history', 'prune', '--older-than', '7d');
    expect(none).toMatchObject({ exitCode: 0, stdout: saying('No state is older') });
    const unasked = await run('history', 'prune', '--older-than', '0s');
    expect(unasked).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--yes') as string });
    expect(await listed()).toHaveLength(4);
    for (const time of ['soon', '2999-01-01'])
      expect(await run('history', 'prune', '--older-than', time, '--yes')).toMatchObject({ exitCode: 2 });
    expect(await run('history', 'prune', 'C', '--older-than', '0s', '--yes')).toMatchObject({ exitCode: 2 });
    expect(await run('history', 'prune', '--older-than', '0s', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await listed()).toEqual([]);
  });

  it('keeps what an older state at a former path needs, and the log shows that state', async () => {
    const { service, run, command } = await startCommands();
    const book = service.addRepository('Book', { 'plan.xlsx': 'one', 'other.xlsx': 'old' });
    await run('sync');
    service.write(book, 'main', 'plan.xlsx', 'two');
    await run('sync');
    service.renameRepository(book, 'Account');
    await run('sync');
    service.write(book, 'main', 'other.xlsx', 'new');
    await run('sync');
    for (const policy of [{ HISTORY_REPLACED: '7d' }, { HISTORY_REPLACED: '1' }]) {
      const pruned = await command(
        ['history', 'prune', 'Account/main', '--older-than', '0s', '--yes'],
        policy,
      );
      expect(pruned.stdout).toContain('No state is older than that');
      service.write(book, 'main', 'plan.xlsx', JSON.stringify(policy));
      expect(await command(['sync'], policy)).toMatchObject({ exitCode: 0 });
      const folder = join(await temporaryFolder(), 'restored');
      const restored = await run('history', 'restore', 'Book/main', '--to', folder);
      expect(restored, restored.stderr).toMatchObject({ exitCode: 0 });
      expect((await run('log', 'Book/main')).stdout).toContain('Book/main');
    }
    const all = await run('history', 'prune', '--older-than', '0s', '--yes');
    expect(all).toMatchObject({ exitCode: 0 });
    expect(JSON.parse((await run('history', 'list', '--json')).stdout)).toEqual([]);
  });

  it('leaves the history as it is under a lease, and says so', async () => {
    const { run, listed } = await withHistory();
    await run('lease', 'acquire', '--for', '1h');
    const leased = await run('history', 'prune', '--older-than', '0s', '--yes');
    expect(leased).toMatchObject({ exitCode: 1, stdout: saying(/^Deleted 0 of 4 states; a lease keeps/) });
    expect(await listed()).toHaveLength(4);
  });
});
