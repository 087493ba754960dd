import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { noteForRepair } from '../../../src/app/drift-notes.ts';
import {
  driftNotesOf,
  type HarnessSettings,
  startMirrored,
  startPair,
} from '../../support/mirror-harness.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** A script in a folder of its own, which it can write to as "$LOG". */
async function scriptOf(body: string): Promise<{ command: string; seen: () => Promise<string> }> {
  const folder = await temporaryFolder();
  const file = join(folder, 'gate.sh');
  await writeFile(file, `LOG=${folder}/seen\n${body}\n`);
  return {
    command: JSON.stringify(['/bin/sh', file]),
    seen: () => readFile(join(folder, 'seen'), 'utf8').catch(() => ''),
  };
}

/** A service, and a mirror of it that runs a script before it publishes. */
async function gated(body: string, settings: HarnessSettings = {}) {
  const { command, seen } = await scriptOf(body);
  const pair = await startPair({}, { HOOKS_BEFORE_PUBLISH: command, ...settings });
  return { ...pair, seen };
}

/** A mirror of Plan, whose next version is up to the command. */
async function hooked(body: string, settings: HarnessSettings = {}) {
  const { service, mirror } = await gated(body, settings);
  const repository = service.addRepository('Plan', { 'a.xlsx': 'a1', 'b.xlsx': 'b1' });
  await mirror.pass();
  service.write(repository, 'main', 'a.xlsx', 'a2');
  return { service, mirror, repository };
}

describe.each(['auto', 'exchange', 'rename'])(
  'the command before publishing, with publish: %s',
  (publish) => {
    it('sees the whole new tree and what changed in it, before any reader', async () => {
      const { service, mirror, seen } = await gated(
        '{ find . -type f | sort; cat sub/b.xlsx; cat; ls "$MIRROR_TREE" 2>&1; cat "$MIRROR_TREE/a.xlsx"; } > $LOG 2>&1; true',
        { PUBLISH: publish },
      );
      const files = { 'a.xlsx': 'a1', 'sub/b.xlsx': 'b1\n', 'c.xlsx': 'c1' };
      const repository = service.addRepository('Plan', files);
      await mirror.pass();
      expect(await seen()).toMatch(
        /^\.\/a\.xlsx\n\.\/c\.xlsx\n\.\/sub\/b\.xlsx\nb1\n\{"change":"added","path":"a\.xlsx"/,
      );
      expect(await seen()).toMatch(/No such file/);
      service.write(repository, 'main', 'a.xlsx', 'a2');
      service.write(repository, 'main', 'd.xlsx', 'd1');
      service.remove(repository, 'main', 'c.xlsx');
      await mirror.pass();
      const lines = (await seen()).split('\n');
      expect(lines.slice(0, 4)).toEqual(['./a.xlsx', './d.xlsx', './sub/b.xlsx', 'b1']);
      const changes = lines.slice(4, 7).map((line) => JSON.parse(line) as Record<string, string>);
      expect(changes.map(({ change, path }) => `${change} ${path}`)).toEqual([
        'added d.xlsx',
        'changed a.xlsx',
        'removed c.xlsx',
      ]);
      expect(lines.slice(7)).toEqual(['a.xlsx', 'c.xlsx', 'sub', 'a1']);
      await mirror.expectExact();
    });

    it('refuses a version, which is not tried again before it changes; what is published stays', async () => {
      const script = 'if grep -q bad a.xlsx; then echo "a is bad" >&2; exit 9; fi';
      const { service, mirror } = await gated(script, { PUBLISH: publish });
      const repository = service.addRepository('Plan', { 'a.xlsx': 'good', 'b.xlsx': 'b1' });
      await mirror.pass();
      const before = service.expectedTrees();
      const stamps = await mirror.stamps();
      service.write(repository, 'main', 'a.xlsx', 'bad');
      service.write(repository, 'main', 'b.xlsx', 'b2');
      const results = await mirror.results();
      expect(results).toMatchObject({
        'Plan/main': { outcome: 'failed', code: 'publish.refused', errorAction: 'quarantine' },
      });
      expect(mirror.eventsOf('target.failed')).toMatchObject([
        { message: 'The command hooks.beforePublish refuses the new state (exit code 9): a is bad' },
      ]);
      await mirror.expectExact(before);
      // Only the change times of files that were linked into the view differ.
      expect(Object.keys(await mirror.stamps())).toEqual(Object.keys(stamps));
      expect(await mirror.results({ trigger: 'schedule' })).toMatchObject({
        'Plan/main': { action: 'hold', reason: 'quarantined' },
      });
      expect(mirror.eventsOf('target.held')).toEqual([]);
      expect(await mirror.results()).toMatchObject({ 'Plan/main': { code: 'publish.refused' } });
      service.write(repository, 'main', 'a.xlsx', 'good again');
      expect((await mirror.pass()).exitCode).toBe(0);
      await mirror.expectExact();
    });
  },
);

describe('the command before publishing', () => {
  it('ends before the time from which its state counts as published', async () => {
    const { service, mirror, seen } = await gated('sleep 0.1; date +%s%3N > $LOG');
    service.addRepository('Plan', { 'a.xlsx': 'a' });
    await mirror.pass();
    const { published_at: publishedAt } = await mirror.manifest('Plan/main');
    expect(Date.parse(publishedAt)).toBeGreaterThanOrEqual(Number(await seen()));
  });

  it('is asked again about a version that another command refused', async () => {
    const { service, mirror } = await gated('exit 9');
    service.addRepository('Plan', { 'a.xlsx': 'a' });
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { code: 'publish.refused' } });
    await mirror.restart({ HOOKS_BEFORE_PUBLISH: (await scriptOf('exit 0')).command });
    expect((await mirror.pass({ trigger: 'command' })).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it.each([
    ['cannot run', 'exit 127'],
    ['is killed', 'kill -KILL $$'],
    ['takes too long', 'sleep 60'],
  ])('that %s publishes nothing, and is tried again', async (_case, body) => {
    const { service, mirror } = await gated(body, { HOOKS_TIMEOUT: '300ms' });
    service.addRepository('Plan', { 'a.xlsx': 'a1' });
    expect(await mirror.results()).toMatchObject({
      'Plan/main': { outcome: 'failed', code: 'hook.failed', errorAction: 'retry' },
    });
    const [{ message } = { message: '' }] = mirror.eventsOf('target.failed');
    expect(message).toMatch(/^The command hooks\.beforePublish failed: /);
    expect(await mirror.targets()).toEqual([]);
    await mirror.restart({ HOOKS_BEFORE_PUBLISH: '' });
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it.each([
    ['adds a file', 'echo x > new'],
    ['takes one away', 'rm b.xlsx'],
    ['writes to a new one', 'echo xxxxxx >> a.xlsx'],
    ['writes to one that is published', 'echo xxxxxx >> b.xlsx'],
    ['closes the tree to readers', 'chmod 700 .'],
    ['replaces a new one by one of its size and time', 'printf x2 > x; touch -r a.xlsx x; mv x a.xlsx'],
    ['replaces one that stays in this way', 'printf x1 > x; touch -r b.xlsx x; mv x b.xlsx'],
  ])('that %s publishes nothing, and the mirror is put right', async (_case, body) => {
    const script = `if grep -q a2 a.xlsx; then ${body}; fi`;
    const { mirror } = await hooked(script, { PUBLISH: 'exchange' });
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { outcome: 'failed', code: 'hook.failed' } });
    expect((await mirror.tree('Plan/main')).get('a.xlsx')?.toString()).toBe('a1');
    await mirror.restart({ HOOKS_BEFORE_PUBLISH: '' });
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it.each([
    ['refuses', 'exit 1', 'publish.refused'],
    ['fails', 'kill -KILL $$', 'hook.failed'],
  ])('that %s and wrote to a published file has that put right', async (_case, ending, code) => {
    const { service, mirror, repository } = await hooked(
      `if grep -q a2 a.xlsx; then echo xxxxxx >> b.xlsx; ${ending}; fi`,
    );
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { outcome: 'failed', code } });
    service.write(repository, 'main', 'a.xlsx', 'a3');
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it('that refuses a state and wrote only beside it leaves the published tree in order', async () => {
    const { mirror } = await hooked('if grep -q a2 a.xlsx; then mkdir __pycache__; fi');
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { code: 'hook.failed' } });
    expect((await driftNotesOf(mirror)).size).toBe(0);
  });

  it('is stopped when the pass is abandoned, and leaves nothing behind', async () => {
    const { service, mirror, seen } = await gated('echo $$ > $LOG; sleep 60');
    service.addRepository('Plan', { 'a.xlsx': 'a1' });
    const abandoned = new AbortController();
    const failure = mirror.failure({ signal: abandoned.signal });
    await expect.poll(seen).not.toBe('');
    abandoned.abort();
    expect((await failure).code).toBe('pass.abandoned');
    expect(await readdir(join(mirror.directory, '.workbook-mirror', 'staging'))).toEqual([]);
  });

  it('does not run again for a state that it let through', async () => {
    const { command, seen } = await scriptOf('echo asked >> $LOG');
    const { mirror } = await startMirrored('Plan', { 'a.xlsx': 'a1' }, { HOOKS_BEFORE_PUBLISH: command });
    await writeFile(join(mirror.directory, 'mirror', 'Plan', 'main', 'a.xlsx'), 'someone wrote this');
    await noteForRepair(mirror.context, 'Plan/main', [], Date.now());
    await mirror.pass();
    await mirror.expectExact();
    expect(await seen()).toBe('asked\n');
  });
});
