import { describe, expect, it } from 'vitest';

import { type MirrorCommands, startCommands, startSynced } from '../../support/mirror-commands.ts';

const HOUR_MS = 3_600_000;

/** A mirror of one target. */
const mirrored = () => startSynced({ Accounting: { 'a.xlsx': 'a', 'b.xlsx': 'b' } });

/** Makes a cache answer everything below a path with its present state and these headers. */
async function cacheAnswers(
  { service }: MirrorCommands,
  path: RegExp,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const bodies = new Map<string, Buffer>();
  for (const { path: asked, headers: sent } of service.requests) {
    if (!path.test(asked) || bodies.has(asked)) continue;
    const { 'x-api-key': key = '', authorization: token = '' } = sent;
    const credential = token === '' ? { 'x-api-key': String(key) } : { authorization: token };
    const answer = await fetch(`${service.origin}${asked}`, { headers: credential });
    bodies.set(asked, Buffer.from(await answer.arrayBuffer()));
  }
  service.fault = (asked) => {
    const body = bodies.get(asked);
    return body === undefined ? null : { kind: 'body', body, headers };
  };
}

const LISTS = /^\/api\/(?:repos|v1\/workbooks)$/;
const CONTENTS = /\/contents/;

describe('a cache in front of the service', () => {
  it('is told to revalidate, with every request', async () => {
    const { service, command } = await mirrored();
    await command(['probe']);
    const sent = service.requests.map(({ headers }) => headers['cache-control']);
    expect(new Set(sent)).toEqual(new Set(['no-cache']));
  });

  it('dates the facts of its lists by their age, and is named', async () => {
    const commands = await mirrored();
    await cacheAnswers(commands, LISTS, { age: '7200', via: '1.1 squid.example' });
    const { exitCode, stderr } = await commands.command(['sync']);
    expect(stderr).toContain('"1.1 squid.example"');
    expect(stderr).toContain('2 h');
    expect(stderr.match(/squid/g)).toHaveLength(1);
    expect(exitCode).toBe(0);
    const target = (await commands.status())['Accounting/main'];
    // The manifest knows of the pull, which was later than the cached lists.
    expect(target?.isStale).toBe(false);
    expect((await commands.command(['status'])).stdout).toContain('squid.example');
  });

  it.each([
    ['as old as its lists', '7200', 2 * HOUR_MS],
    ['a year old if the age is beyond the range of clocks', '9'.repeat(30), 365 * 24 * HOUR_MS],
  ])('makes a first mirror %s', async (_how, age, expectedMs) => {
    const commands = await startCommands();
    commands.service.addRepository('Accounting', { 'a.xlsx': 'a' });
    commands.service.knobs.headers = { age };
    expect((await commands.command(['sync'])).stderr).toContain('A cache on the way');
    const { state, isStale, verifiedAtMs } = (await commands.status())['Accounting/main'] ?? {};
    expect({ state, isStale }).toEqual({ state: 'stale', isStale: true });
    expect(Math.round((Date.now() - (verifiedAtMs ?? 0)) / HOUR_MS)).toBe(expectedMs / HOUR_MS);
  });

  it.each(['-5', '1e9', 'soon', '', '0', '+7'])(
    'is no reason for an older time with Age: %j',
    async (age) => {
      const commands = await startCommands();
      commands.service.addRepository('Accounting', { 'a.xlsx': 'a' });
      commands.service.knobs.headers = { age, via: '1.1 proxy' };
      const { exitCode, stderr } = await commands.command(['sync']);
      expect({ exitCode, warns: stderr.includes('cache') }).toEqual({ exitCode: 0, warns: false });
      expect((await commands.status())['Accounting/main']?.state).toBe('fresh');
    },
  );

  it('does not bring back contents from before the last verification', async () => {
    const commands = await mirrored();
    const { service, text } = commands;
    await cacheAnswers(commands, CONTENTS, { age: '3600' });
    const repository = service.named();
    const cached = service.fault;
    service.fault = null;
    service.write(repository, 'main', 'a.xlsx', 'a, second version');
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    service.write(repository, 'main', 'b.xlsx', 'b, second version');
    service.fault = cached;
    const { exitCode, stderr } = await commands.command(['sync']);
    expect({ exitCode, isSaid: stderr.includes('gave contents older than') }).toEqual({
      exitCode: 1,
      isSaid: true,
    });
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a, second version');
    expect((await commands.status())['Accounting/main']?.state).toBe('failing');
  });

  it('never proves that a repository is deleted, however often it lacks it', async () => {
    const commands = await mirrored();
    const { service } = commands;
    service.addRepository('Other', { 'o.xlsx': 'o' });
    await cacheAnswers(commands, LISTS, { age: '60' });
    service.fault = null;
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    const accounting = service.named();
    service.removeRepository(accounting);
    service.knobs.headers = { age: '60' };
    for (let passes = 0; passes < 5; passes += 1) await commands.command(['sync'], { GUARD_TARGETS: 'off' });
    expect(Object.keys(await commands.status())).toContain('Accounting/main');
  });
});
