import { array, assert, constantFrom, jsonValue, option, property, record, string, tuple } from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { repositoryOf } from '../../../../src/cli/service/repos.ts';
import { describeFetch } from '../../../../src/server/start/notices.ts';
import { type Address, readAddress } from '../../../../src/server/git/addresses.ts';
import { formatCredentials, secretsOf } from '../../../../src/server/external/credentials.ts';
import { FetchQueue, createFetching, nextTurn } from '../../../../src/server/git/fetch-queue.ts';
import { networkEnvironment } from '../../../../src/server/external/reach.ts';
import { credentialsOf } from '../../../../src/server/git/registrar.ts';
import type { RegisteredRepository } from '../../../../src/server/git/registry-index.ts';
import {
  isInStep,
  isReferenceName,
  leaveOut,
  parseOwnReferences,
  parseRemoteReferences,
  planReferences,
  type ReferencePlan,
  type References,
} from '../../../../src/server/git/remote-refs.ts';
import { describeComplaint, troubleOf } from '../../../../src/server/external/errors.ts';
import { readCreation } from '../../../../src/server/http/create.ts';

describe('the address of an external repository', () => {
  it.each<[string, Address]>([
    [
      'https://git.example.com/planning/forecast.git',
      {
        protocol: 'https',
        origin: 'https://git.example.com',
        name: 'forecast',
        fullName: 'git.example.com/planning/forecast.git',
      },
    ],
    [
      'HTTPS://Host:8443/a/@b/c.d.git',
      { protocol: 'https', origin: 'https://Host:8443', name: 'c.d', fullName: 'Host:8443/a/@b/c.d.git' },
    ],
    [
      'https://[::1]:8443/Zürich%20x.git',
      {
        protocol: 'https',
        origin: 'https://[::1]:8443',
        name: 'Zürich%20x',
        fullName: '[::1]:8443/Zürich%20x.git',
      },
    ],
  ])('gives the names of %s', (text, address) => {
    for (const sources of ['https', 'any'] as const) {
      expect(readAddress(text, sources)).toEqual({ kind: 'usable', address });
    }
  });

  it.each<[string, string, string]>([
    ['http://host/plan.git', 'http', 'host/plan.git'],
    ['/srv/x y/plan.git', 'file', 'localhost/srv/x y/plan.git'],
    ['file:///srv/x/plan.git', 'file', 'localhost/srv/x/plan.git'],
  ])('may be %s for trials only', (text, protocol, fullName) => {
    expect(readAddress(text, 'any')).toMatchObject({
      kind: 'usable',
      address: { protocol, fullName, name: 'plan' },
    });
    expect(readAddress(text, 'https')).toMatchObject({ kind: 'refused', code: 'forbidden_scheme' });
  });

  it.each([
    'https://host/plan',
    'https://host/.git',
    'https://plan.git',
    'https:///plan.git',
    'https://host/../plan.git',
    'https://host/a/%2E./plan.git',
    'https://host/./plan.git',
    'https://host/a/plan.git?x=.git',
    'https://host/a/plan.git#.git',
    'https://host/a plan.git',
    'https://host//plan.git',
    'https://host/plan.git/',
    'https://-oProxyCommand=x/plan.git',
    'https://host:port/plan.git',
    'https://host:99999/plan.git',
    String.raw`https://host\a/plan.git`,
    'https://user:secret@host/plan.git',
    'https://secret@host/plan.git',
    'https://user:secret@/plan.git',
    'https://host/plan.git\nsecret',
    'https://host/\ud800.git',
    `https://host/${'x'.repeat(2100)}.git`,
    'file://host/srv/plan.git',
    'file:///srv/../plan.git',
    '/srv/plan',
    '/.git',
  ])('cannot be %s', (text) => {
    const reading = readAddress(text, 'any');
    expect(reading).toMatchObject({ kind: 'refused', code: 'invalid' });
    expect(JSON.stringify(reading)).not.toContain('secret');
  });

  it.each([
    '',
    'plan.git',
    './plan.git',
    'host:plan.git',
    'git@host:a/plan.git',
    'ssh://host/plan.git',
    'git://host/plan.git',
    'ext::id %G plan.git',
    'fd::17/plan.git',
    '--upload-pack=x.git',
    'https:/host/plan.git',
    ' https://host/plan.git',
  ])('has no scheme that is ever allowed: %s', (text) => {
    for (const sources of ['https', 'any'] as const) {
      expect(readAddress(text, sources)).toMatchObject({ kind: 'refused', code: 'forbidden_scheme' });
    }
  });

  it('gives names that lead nowhere else, whatever it is', () => {
    const piece = constantFrom(
      'https://',
      'host',
      '/',
      '.',
      '..',
      '.git',
      '@',
      ':',
      '8443',
      'a',
      '%2e',
      ' ',
      '\n',
      'é',
    );
    assert(
      property(array(piece, { maxLength: 12 }), (pieces) => {
        const reading = readAddress(pieces.join(''), 'any');
        if (reading.kind === 'refused') return;
        const { fullName, name } = reading.address;
        expect(fullName.endsWith(`/${name}.git`)).toBe(true);
        expect(fullName.split('/').some((segment) => ['', '.', '..'].includes(segment))).toBe(false);
        expect(fullName.split('/')[0]).not.toContain('@');
      }),
    );
  });
});

describe('credentials', () => {
  it('come together or not at all', () => {
    expect(credentialsOf({ username: null, password: null })).toBeNull();
    expect(credentialsOf({ username: '', password: '' })).toBeNull();
    expect(credentialsOf({ username: 'token', password: '' })).toEqual({ username: 'token', password: '' });
    expect(() => credentialsOf({ username: 'u', password: null })).toThrow(/^password:/);
    expect(() => credentialsOf({ username: '', password: 'secret' })).toThrow(/^username:(?!.*secret)/);
    expect(() => credentialsOf({ username: 'u', password: 'secret\n' })).toThrow(/^password:(?!.*secret)/);
  });

  it('are written as Git reads them', () => {
    const line = string({ unit: 'grapheme' }).filter((text) => !/\p{Cc}/u.test(text));
    assert(
      property(line, line, (username, password) => {
        const known = secretsOf(formatCredentials({ username, password }));
        expect(known.isComplete).toBe(true);
        expect(password === '' || known.secrets.includes(password)).toBe(true);
        expect(known.secrets).toContain(Buffer.from(`${username}:${password}`).toString('base64'));
      }),
    );
  });

  it.each([
    ['username=reader\npassword=s3cret-word', true],
    ['username=reader\r\npassword=s3cret-word\r\n', true],
    ['username=reader\r\npassword=s3cret-word\r', true],
    ['password=s3cret-word\nusername=reader\n', true],
    ['protocol=https\nusername=reader\npassword=s3cret-word\n\n', true],
    ['password=s3cret-word\npassword=other-word\nusername=reader\n', true],
    ['username=s3cret-word\npassword=\n', true],
    ['s3cret-word', false],
    ['s3cret-word\n', false],
    ['reader:s3cret-word\n', false],
    ['password=s3cret-word\n', false],
    ['', false],
  ])('are hidden when they are repeated, however the file was written: %j', (text, areEnough) => {
    const known = secretsOf(text);
    expect(known.areEnough).toBe(areEnough);
    const bare = 's3cret-word';
    const carried = ['reader:s3cret-word', 'reader:s3cret-word\r', 's3cret-word:'].map((each) =>
      Buffer.from(each).toString('base64'),
    );
    const inRequest = carried.find((each) => known.secrets.includes(each)) ?? carried[0];
    const said = `git fetch ended with 128: fatal: HTTP 403: you sent ${inRequest}, that is ${bare}; ${text}`;
    const error = describeComplaint(said, known);
    expect(error.trouble).toBe('credentials');
    expect(`${error.message} ${error.hint}`).not.toContain(bare);
    expect(carried.some((each) => error.message.includes(each))).toBe(false);
  });

  it('have the words of the server kept back where they are too short to be found in them', () => {
    const known = secretsOf('username=reader\npassword=abc\n');
    expect(describeComplaint('HTTP 403: remote: you sent abc', known).message).not.toContain('abc');
    expect(describeComplaint('remote: no', secretsOf('username=r\npassword=abcd\n')).message).toContain('no');
  });

  it('are asked for by the origin of the address alone, and are in no variable', () => {
    const access = {
      protocol: 'https',
      origin: 'https://host:8443',
      credentialFile: "/it's/$(here)",
    } as const;
    const environment = networkEnvironment(access, 'http://git:password@127.0.0.1:1');
    const keys = Object.entries(environment).filter(([name]) => name.startsWith('GIT_CONFIG_KEY_'));
    expect(keys.map(([, value]) => value)).toEqual([
      'http.followRedirects',
      'http.lowSpeedLimit',
      'http.lowSpeedTime',
      'http.proxy',
      'http.proxyAuthMethod',
      'credential.helper',
      'credential.https://host:8443.helper',
    ]);
    expect(environment).toMatchObject({
      GIT_ALLOW_PROTOCOL: 'https',
      GIT_ASKPASS: '',
      GIT_CONFIG_COUNT: '7',
    });
    expect(networkEnvironment({ ...access, credentialFile: null }, null)['GIT_CONFIG_COUNT']).toBe('4');
    expect(networkEnvironment({ ...access, protocol: 'file' }, null)['GIT_ALLOW_PROTOCOL']).toBe('file');
  });

  it.each([
    ["fatal: Authentication failed for 'https://h/p.git/'", 'credentials'],
    ["fatal: could not read Username for 'https://h': terminal prompts disabled", 'credentials'],
    ["fatal: unable to access 'https://h/p.git/': The requested URL returned error: 403", 'credentials'],
    ["fatal: unable to access 'https://h/p.git/': The requested URL returned error: 500", 'unreachable'],
    ["fatal: repository 'https://h/p.git/' not found", 'unreachable'],
  ])('are to blame, or not: %s', (complaint, trouble) => {
    expect(troubleOf(complaint)).toBe(trouble);
  });
});

const ID = { one: '1'.repeat(40), two: '2'.repeat(40) };

describe('the references of another repository', () => {
  it('are read from what git says', () => {
    const output = [
      'ref: refs/heads/main\tHEAD',
      `${ID.one}\tHEAD`,
      `${ID.one}\trefs/heads/main`,
      `${ID.two}\trefs/tags/v1`,
      `${ID.one}\trefs/tags/v1^{}`,
      `${ID.one}\trefs/heads/a..b`,
      `${ID.one}\trefs/../../x`,
      'nonsense',
      '',
    ].join('\n');
    expect(parseRemoteReferences(output)).toEqual({
      ids: new Map([
        ['refs/heads/main', ID.one],
        ['refs/tags/v1', ID.two],
      ]),
      head: 'refs/heads/main',
    });
    expect(parseRemoteReferences('')).toEqual({ ids: new Map(), head: null });
    expect(parseRemoteReferences('ref: refs/heads/../x\tHEAD\n').head).toBeNull();
    expect(parseOwnReferences(`${ID.one} refs/heads/main\n`)).toEqual(new Map([['refs/heads/main', ID.one]]));
  });

  it('that no disk can hold, or this one refuses, are left out', () => {
    const long = `refs/heads/${'é'.repeat(126)}`;
    const fine = `refs/heads/${'é'.repeat(125)}`;
    const deep = `refs/heads${'/segment'.repeat(400)}`;
    const ids = new Map([long, fine, deep, 'refs/heads/main'].map((name) => [name, ID.one]));
    const left = leaveOut({ ids, head: null }, new Map());
    expect([...left.ids.keys()]).toEqual([fine, 'refs/heads/main']);
    expect(left.leftOut).toEqual([long, deep]);
    const refused = new Map([
      [fine, ID.one],
      ['refs/heads/main', ID.two],
    ]);
    expect([...leaveOut({ ids, head: null }, refused).ids.keys()]).toEqual(['refs/heads/main']);
  });

  it.each<[string | null, string | null, readonly string[], string | null]>([
    [null, 'refs/heads/main', ['refs/heads/trunk', 'refs/heads/dev'], 'refs/heads/dev'],
    [null, 'refs/heads/main', ['refs/heads/trunk', 'refs/heads/master'], 'refs/heads/master'],
    [null, 'refs/heads/trunk', ['refs/heads/trunk', 'refs/heads/dev'], null],
    ['refs/heads/gone', 'refs/heads/main', ['refs/heads/trunk'], 'refs/heads/trunk'],
    ['refs/heads/gone', 'refs/heads/trunk', ['refs/heads/trunk'], null],
    ['refs/heads/dev', 'refs/heads/trunk', ['refs/heads/trunk', 'refs/heads/dev'], 'refs/heads/dev'],
    ['refs/heads/unborn', 'refs/heads/main', [], 'refs/heads/unborn'],
    [null, 'refs/heads/main', ['refs/tags/v1'], null],
  ])('have a default branch: %s there, %s here, with %j', (theirs, ours, names, head) => {
    const ids = new Map(names.map((name) => [name, ID.one]));
    expect(planReferences({ ids, head: ours }, { ids, head: theirs }).head).toBe(head);
  });

  it.each(['refs/heads/x', 'refs/heads/é/-y', 'refs/pull/1/head', 'refs/heads/@'])('may be %s', (name) => {
    expect(isReferenceName(name)).toBe(true);
  });

  it.each([
    'HEAD',
    'refs/heads/',
    'refs//x',
    'refs/heads/.x',
    'refs/heads/x.lock',
    'refs/heads/x.lock/y',
    'refs/heads/x.',
    'refs/heads/a b',
    'refs/heads/a\nb',
    'refs/heads/a:b',
    'refs/heads/a@{b',
    'refs/heads/a*',
    String.raw`refs/heads/a\b`,
    'refs/heads/a~1',
    'refs/x/../../y',
  ])('cannot be %j', (name) => {
    expect(isReferenceName(name)).toBe(false);
  });

  const names = ['a', 'a/b', 'a/b/c', 'd', 'd/e', 'f'].map((name) => `refs/heads/${name}`);

  /** Whether Git could keep them: as files in folders. */
  const canExist = (present: Iterable<string>): boolean => {
    const all = [...present];
    return !all.some((name) => all.some((other) => other.startsWith(`${name}/`)));
  };

  /** Any references that can be beside one another. */
  const references = record({
    entries: array(tuple(constantFrom(...names), constantFrom(ID.one, ID.two))),
    head: option(constantFrom(...names)),
  }).map(({ entries, head }): References => {
    const ids = new Map<string, string>();
    for (const [name, id] of entries) if (canExist([...ids.keys(), name])) ids.set(name, id);
    return { ids, head };
  });

  /** Runs commands as `git update-ref` does, all or none. */
  function run(ids: ReadonlyMap<string, string>, commands: readonly string[]): Map<string, string> {
    const next = new Map(ids);
    for (const command of commands) {
      const [verb, name = '', id = ''] = command.split(' ');
      if (verb === 'delete') expect(next.delete(name)).toBe(true);
      else next.set(name, id);
    }
    expect(canExist(next.keys())).toBe(true);
    return next;
  }

  it('are all there in the end, and nothing is gone before what is new has come', () => {
    assert(
      property(references, references, (own, remote) => {
        const plan: ReferencePlan = planReferences(own, remote);
        const cleared = run(own.ids, plan.clearings);
        const updated = run(cleared, plan.updates);
        expect(run(updated, plan.removals)).toEqual(remote.ids);
        const head = plan.head ?? own.head;
        // Whoever names no branch gets one, and the one that they mean where it is there.
        if (remote.ids.size > 0) expect(remote.ids.has(head ?? '')).toBe(true);
        if (remote.ids.has(remote.head ?? '')) expect(head).toBe(remote.head);
        // What goes early stands in the way of something new.
        for (const name of own.ids.keys()) {
          if (cleared.has(name)) continue;
          expect(
            [...remote.ids.keys()].some(
              (other) => other.startsWith(`${name}/`) || name.startsWith(`${other}/`),
            ),
          ).toBe(true);
        }
        // What is not asked for is there already.
        for (const [name, id] of remote.ids) {
          expect(plan.wanted.includes(name) || [...own.ids.values()].includes(id)).toBe(true);
        }
        const after = planReferences({ ids: remote.ids, head: plan.head ?? own.head }, remote);
        expect(isInStep(after)).toBe(true);
      }),
    );
  });
});

describe('the queue of fetches', () => {
  let running: Array<{ id: string; end: (error?: Error) => void }> = [];
  let told: string[] = [];
  let hosts = new Map<string, string>();
  let queue: FetchQueue;
  const settle = (): Promise<void> => vi.advanceTimersByTimeAsync(0).then(() => undefined);

  async function end(id: string, error?: Error): Promise<void> {
    const index = running.findIndex((work) => work.id === id);
    running.splice(index, 1)[0]?.end(error);
    await settle();
  }

  beforeEach(() => {
    vi.useFakeTimers();
    running = [];
    told = [];
    hosts = new Map();
    queue = new FetchQueue(
      {
        isLong: (id) => id.startsWith('long'),
        hostOf: (id) => hosts.get(id) ?? id,
        run: (id) =>
          new Promise((resolve, reject) => {
            running.push({ id, end: (error) => (error === undefined ? resolve() : reject(error)) });
          }),
        onFailing: (id, { nextAttemptMs, isNews }) => {
          if (isNews) told.push(`${id} fails, again in ${nextAttemptMs}`);
        },
        onRecovered: (id) => told.push(`${id} recovers`),
      },
      { firstDelayMs: 1000, maxDelayMs: 4000 },
      () => 1,
    );
  });

  afterEach(() => vi.useRealTimers());
  const ids = (): string[] => running.map(({ id }) => id);

  it('runs one more for all who ask while one runs', async () => {
    queue.ask('a');
    await settle();
    for (let count = 0; count < 5; count += 1) queue.ask('a');
    await settle();
    expect(ids()).toEqual(['a']);
    await end('a');
    expect(ids()).toEqual(['a']);
    await end('a');
    expect(ids()).toEqual([]);
  });

  it('has places for four, and two for what is long', async () => {
    for (const id of ['long1', 'long2', 'long3', '1', '2', '3', '4', '5']) queue.ask(id);
    queue.ask('5');
    await settle();
    expect(ids()).toEqual(['long1', 'long2', '1', '2', '3', '4']);
    await end('2');
    await end('long1');
    expect(ids()).toEqual(['long2', '1', '3', '4', '5', 'long3']);
    await end('5');
    expect(ids()).not.toContain('5');
  });

  it('gives the places of what is slow to others after some minutes', async () => {
    for (const id of ['long1', 'long2', 'long3', 'long4', 'long5']) queue.ask(id);
    await vi.advanceTimersByTimeAsync(299_000);
    expect(ids()).toEqual(['long1', 'long2']);
    await vi.advanceTimersByTimeAsync(1000);
    expect(ids()).toEqual(['long1', 'long2', 'long3', 'long4']);
    await end('long3');
    expect(ids()).toEqual(['long1', 'long2', 'long4', 'long5']);
    // What goes on outside is still under way: who asks for it gets one more afterwards.
    queue.ask('long1');
    await end('long4');
    expect(ids().filter((id) => id === 'long1')).toHaveLength(1);
    await end('long1');
    expect(ids()).toContain('long1');
  });

  it('lets one server have no more than its own places, whatever is asked of it', async () => {
    const slow = ['long1', 'long2', 'long3', 'long4', 'long5', 'long6', 'long7'];
    for (const id of slow) hosts.set(id, 'slow');
    for (const id of [...slow, 'long8']) queue.ask(id);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(ids()).toEqual(['long1', 'long2', 'long3', 'long4', 'long8']);
    await end('long2');
    expect(ids()).toEqual(['long1', 'long3', 'long4', 'long8', 'long5']);
  });

  it('tells of what fails and fails once a day', async () => {
    queue.ask('a');
    await settle();
    for (let count = 0; count < 50_000 && told.length < 3; count += 1) {
      await end('a', new Error('x'));
      await vi.advanceTimersByTimeAsync(4000);
    }
    expect(told).toEqual(['a fails, again in 1000', 'a fails, again in 4000', 'a fails, again in 4000']);
    expect(performance.now()).toBeGreaterThan(2 * 86_400_000);
  });

  it('tries again later each time, and tells once of the failure and of the end of it', async () => {
    queue.ask('a');
    await settle();
    for (const delayMs of [1000, 2000, 4000, 4000]) {
      await end('a', new Error('x'));
      queue.remind('a');
      await vi.advanceTimersByTimeAsync(delayMs - 1);
      expect(ids()).toEqual([]);
      await vi.advanceTimersByTimeAsync(1);
      expect(ids()).toEqual(['a']);
    }
    await end('a', new Error('x'));
    queue.ask('a');
    await settle();
    expect(ids()).toEqual(['a']);
    await end('a');
    expect(told).toEqual(['a fails, again in 1000', 'a recovers']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ids()).toEqual([]);
    queue.remind('a');
    await settle();
    expect(ids()).toEqual(['a']);
  });

  it('starts nothing any more when it is closed, and waits for what runs', async () => {
    queue.ask('a');
    queue.ask('b');
    await settle();
    await end('b', new Error('x'));
    queue.ask('a');
    let isClosed = false;
    const closing = (async () => {
      await queue.close();
      isClosed = true;
    })();
    await settle();
    expect(isClosed).toBe(false);
    await end('a', new Error('ended'));
    await closing;
    queue.ask('c');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ids()).toEqual([]);
    expect(told).toEqual(['b fails, again in 1000']);
  });
});

describe('the comparison of all repositories', () => {
  it('goes round, one after the other', () => {
    expect(nextTurn([], null, 100)).toEqual({ id: null, waitMs: 100 });
    expect(nextTurn(['a', 'b'], null, 100)).toEqual({ id: 'a', waitMs: 50 });
    expect(nextTurn(['a', 'b'], 'a', 100).id).toBe('b');
    expect(nextTurn(['a', 'b'], 'b', 100).id).toBe('a');
    expect(nextTurn(['a', 'b'], 'gone', 100).id).toBe('a');
  });

  it('asks for each once in an interval, after all of them at the beginning', async () => {
    vi.useFakeTimers();
    const asked: string[] = [];
    const row = (id: string, source: string | null): RegisteredRepository => ({
      id,
      name: id,
      full_name: id,
      url: source,
      source,
      created_at: '',
      cloned: true,
    });
    const list = [row('a', 'x'), row('drag', null), row('b', 'y')];
    const registry = { list: () => list, fetches: { whenDue: (id: string) => void asked.push(id) } };
    const fetching = createFetching(registry, { intervalMs: 366 * 86_400_000 });
    expect(asked).toEqual(['a', 'b']);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(asked).toHaveLength(2);
    fetching.close();
    asked.length = 0;
    const fast = createFetching(registry, { intervalMs: 1000 });
    await vi.advanceTimersByTimeAsync(2000);
    fast.close();
    await vi.advanceTimersByTimeAsync(5000);
    vi.useRealTimers();
    expect(asked).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
  });

  it('is told in a line', () => {
    const repository = { full_name: 'h/p.git' } as RegisteredRepository;
    expect(describeFetch({ kind: 'cloned', repository })).toBe('h/p.git: cloned');
    const error = new Error('a\nb');
    const line = describeFetch({ kind: 'failing', repository, error, nextAttemptMs: 10_000 });
    expect(line).toMatch(/tried again in 10 s/);
    expect(line).toMatch(/cannot be cloned, and has no contents/);
    const cloned = { ...repository, cloned: true };
    const later = describeFetch({ kind: 'failing', repository: cloned, error, nextAttemptMs: 10_000 });
    expect(later).toMatch(/what was fetched before stays/);
    const names = ['refs/heads/a', `refs/heads/${'b'.repeat(900)}`, 'c', 'd', 'e', 'f', 'g'];
    const leftOut = describeFetch({ kind: 'left-out', repository, names });
    expect(leftOut).toMatch(/refs\/heads\/a, .* and 2 more$/);
    expect(leftOut.length).toBeLessThan(400);
    expect(leftOut).not.toContain('\n');
    expect(describeFetch({ kind: 'damaged', repository, error })).toMatch(/cloned again/);
    expect(line).not.toContain('\n');
  });
});

describe('the body of a request to create', () => {
  it('has one of two shapes', () => {
    expect(readCreation({ name: 'A', url: null, more: 1 })).toEqual({ kind: 'drag-and-drop', name: 'A' });
    expect(readCreation({ name: 'A', username: '', password: '' })).toEqual({
      kind: 'drag-and-drop',
      name: 'A',
    });
    expect(readCreation({ url: 'u' })).toEqual({
      kind: 'external',
      external: { url: 'u', username: null, password: null },
    });
    assert(
      property(jsonValue(), (value) => {
        try {
          readCreation(value);
        } catch (error) {
          expect(error).toMatchObject({ status: 400, code: 'invalid' });
        }
      }),
    );
  });
});

describe('repos create', () => {
  const read = (): Promise<string> => Promise.resolve('secret\r\n');

  it('asks for what the flags say', async () => {
    expect(await repositoryOf({ name: 'A' }, read)).toEqual({ name: 'A' });
    expect(await repositoryOf({ url: 'u' }, read)).toEqual({ url: 'u' });
    expect(await repositoryOf({ url: 'u', username: 'n', passwordFile: 'f' }, read)).toEqual({
      url: 'u',
      username: 'n',
      password: 'secret',
    });
  });

  it.each([
    [{}],
    [{ name: 'A', url: 'u' }],
    [{ url: 'u', username: 'n' }],
    [{ url: 'u', passwordFile: 'f' }],
    [{ name: 'A', username: 'n', passwordFile: 'f' }],
  ])('refuses %j', async (flags) => {
    await expect(repositoryOf(flags, read)).rejects.toMatchObject({ code: 'usage.invalid' });
  });

  it('refuses an empty password', async () => {
    const flags = { url: 'u', username: 'n', passwordFile: 'f' };
    await expect(repositoryOf(flags, () => Promise.resolve('\n'))).rejects.toMatchObject({
      code: 'usage.invalid',
    });
  });
});
