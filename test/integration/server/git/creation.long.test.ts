import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { repositoriesSchema } from '../../../../src/lib/api/schemas.ts';
import type { Sources } from '../../../../src/server/git/addresses.ts';
import { initialise } from '../../../../src/server/git/bare.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { readBranches } from '../../../../src/server/git/refs.ts';
import { commitPlan, headsOf, makeExternal, startConnecting } from '../../../support/connecting.ts';
import { type GitHttpServer, startGitHttpServer } from '../../../support/git-http-server.ts';
import { outcomesIn } from '../../../support/git-service.ts';
import { textsIn } from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PASSWORD = 'a-password-of-the-tests';
const SECRETS = [PASSWORD, Buffer.from(`reader:${PASSWORD}`).toString('base64')];
const git = new Git();

let root = '';
let sources: Sources = 'any';
let told: string[] = [];

/** Starts the service on the data of this test, whose path would hurt a careless shell. */
async function start() {
  const options = { sources, tell: (line: string) => told.push(line) };
  const service = await startConnecting(join(root, "it's $(data)"), options);
  return { ...service, create: (body: unknown) => service.ask('/repos', body) };
}

/** Starts the service, connects a repository, and waits until it is cloned. */
async function startCloned(url: string) {
  const service = await start();
  const { id } = await created(await service.create({ url }));
  await expect.poll(() => outcomesIn(told)).toEqual(['cloned']);
  return { ...service, id };
}

/** Holds the second request for the references of a repository, which is the clone. @returns when it has arrived */
function holdClone(server: GitHttpServer, gate: Promise<boolean>): Promise<void> {
  const arrived = Promise.withResolvers<void>();
  server.intercept = ({ url = '' }) => {
    const questions = server.requests.filter(({ line }) => line.includes('/info/refs')).length;
    if (questions <= 2 || !url.includes('/info/refs')) return false;
    arrived.resolve();
    return gate;
  };
  return arrived.promise;
}

const errorSchema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });

async function refusal(response: Response): Promise<[number, string, string]> {
  const { code, message } = errorSchema.parse(await response.json()).error;
  return [response.status, code, message];
}

const createdSchema = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  full_name: z.string(),
  url: z.string().nullable(),
  created_at: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$/),
});

async function created(response: Response): Promise<z.infer<typeof createdSchema>> {
  const body: unknown = await response.json();
  expect([response.status, body]).toEqual([201, body]);
  return createdSchema.parse(body);
}

const external = (): Promise<string> => makeExternal(root);

beforeEach(async () => {
  root = await temporaryFolder();
  sources = 'any';
  told = [];
});

describe('a drag-and-drop repository', () => {
  it('is created, listed, and found at once', async () => {
    const { ask, create } = await start();
    const response = await create({ name: 'Übersicht Köln', colour: 'blue' });
    const repository = await created(response.clone());
    expect(repository).toMatchObject({ name: 'Übersicht Köln', full_name: 'Übersicht Köln', url: null });
    expect(repositoriesSchema.parse(await (await ask('/repos')).json())).toEqual([repository]);
    const location = response.headers.get('location') ?? '';
    expect(location).toBe(`/api/repos/${repository.id}/contents`);
    expect((await ask(location.replace('/api', ''))).status).toBe(200);
    await created(await ask('/repositories', { name: 'Other', url: null }));
  });

  it('has a name of its own, to the letter', async () => {
    const { create } = await start();
    const answers = await Promise.all([1, 2, 3].map(() => create({ name: 'é' })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(2);
    expect(await refusal(await create({ name: 'é' }))).toEqual([
      409,
      'exists',
      'a repository é exists already',
    ]);
    await created(await create({ name: 'É' }));
    await created(await create({ name: 'e\u0301' }));
  });
});

describe('a request to create', () => {
  it('is refused as invalid if its body is, by a message that names the field', async () => {
    const { ask, create } = await start();
    const cases: ReadonlyArray<readonly [string, RegExp]> = [
      ['{', /JSON/],
      ['[]', /object/],
      ['{}', /name:.*url/],
      ['{"name":"a","url":"https://h/p.git"}', /name:.*url/],
      ['{"name":1}', /^name:/],
      ['{"name":"a","password":"secret"}', /^username:/],
      ['{"url":"https://h/p.git","username":"u"}', /^password:/],
      ['{"url":"https://h/p.git","username":"u","password":["secret"]}', /^password:/],
      ['{"url":"https://h/p.git","password":"secret"}', /^username:/],
      [String.raw`{"url":"https://h/p.git","username":"u\nx","password":"secret"}`, /^username:/],
      [String.raw`{"url":"https://h/p.git","username":"u","password":"secret\u0000"}`, /^password:/],
      ['{"url":"/srv/plan.git","username":"u","password":"secret"}', /^username:/],
      ['{"name":"a/b"}', /^name:/],
      ['{"url":"https://u:secret@h/p.git"}', /^url:/],
    ];
    for (const [body, message] of cases) {
      const answer = await refusal(await create(body));
      expect([body, ...answer]).toEqual([body, 400, 'invalid', expect.stringMatching(message)]);
      expect(answer[2]).not.toContain('secret');
    }
    expect(await (await ask('/repos')).json()).toEqual([]);
  });

  it('is refused for a scheme that the settings do not allow', async () => {
    sources = 'https';
    const { create } = await start();
    const answer = await refusal(await create({ url: 'http://h/p.git' }));
    expect(answer.slice(0, 2)).toEqual([400, 'forbidden_scheme']);
  });

  it('is refused when it is too long', async () => {
    const { create, registry } = await start();
    expect((await refusal(await create({ name: 'x'.repeat(70_000) }))).slice(0, 2)).toEqual([
      413,
      'too_large',
    ]);
    expect(registry.list()).toEqual([]);
  });

  it('reports that an address does not exist, needs other credentials, or is in use', async () => {
    await external();
    const { origin } = await startGitHttpServer(join(root, 'host'), `reader:${PASSWORD}`);
    const { create, registry } = await start();
    const of = async (path: string, more: object): Promise<unknown[]> => {
      const answer = await refusal(await create({ url: `${origin}/${path}`, ...more }));
      expect(answer[2]).not.toContain('wrong-password');
      return answer.slice(0, 2);
    };
    const right = { username: 'reader', password: PASSWORD };
    const wrong = { username: 'reader', password: 'wrong-password' };
    expect(await of('plan.git', {})).toEqual([422, 'credentials_refused']);
    expect(await of('plan.git', wrong)).toEqual([422, 'credentials_refused']);
    expect(await of('none.git', right)).toEqual([422, 'unreachable']);
    expect((await refusal(await create({ url: join(root, 'host', 'none.git') })))[1]).toBe('unreachable');
    expect((await refusal(await create({ url: 'http://127.0.0.1:1/plan.git' })))[1]).toBe('unreachable');
    expect(registry.list()).toEqual([]);
    expect(await readdir(join(root, "it's $(data)", 'credentials'))).toEqual([]);
    expect(await readdir(join(root, "it's $(data)", 'repositories'))).toEqual([]);
    await created(await create({ url: `${origin}/plan.git`, ...right }));
    expect(await of('plan.git', right)).toEqual([409, 'exists']);
  });
});

/** Every place of this machine where the password might appear, except its own file. */
async function placesOfSecrets(data: string, own: string): Promise<string[]> {
  const names = Object.keys(await textsIn(data));
  const files = names.map((name) => join(data, name)).filter((path) => path !== own);
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const paths = [...files, ...processes.flatMap((pid) => [`/proc/${pid}/cmdline`, `/proc/${pid}/environ`])];
  const found = await Promise.all(
    paths.map(async (path) => {
      const text = await readFile(path, 'latin1').catch(() => '');
      return SECRETS.some((secret) => text.includes(secret)) ? [path] : [];
    }),
  );
  return found.flat();
}

describe('an external repository', () => {
  it('is listed immediately and cloned later, and its password is in no other place', async () => {
    await external();
    const server = await startGitHttpServer(join(root, 'host'), `reader:${PASSWORD}`);
    const gate = Promise.withResolvers<boolean>();
    const arrived = holdClone(server, gate.promise);
    const { registry, ask, create } = await start();
    const url = `${server.origin}/plan.git`;
    const response = await create({ url, username: 'reader', password: PASSWORD });
    const text = await response.clone().text();
    const repository = await created(response);
    const fullName = url.replace('http://', '');
    expect(repository).toMatchObject({ name: 'plan', full_name: fullName, url });
    expect(await (await ask('/repos')).json()).toEqual([repository]);

    await arrived;
    const early = await ask(`/repos/${repository.id}/contents`);
    // That would make clients avoid the whole service.
    expect(early.headers.get('retry-after')).toBeNull();
    expect((await refusal(early)).slice(0, 2)).toEqual([503, 'processing']);
    const data = join(root, "it's $(data)");
    const own = join(data, 'credentials', repository.id);
    expect(await placesOfSecrets(data, own)).toEqual([]);
    expect(await readFile(own, 'utf8')).toBe(`username=reader\npassword=${PASSWORD}\n`);
    expect((await stat(own)).mode & 0o777).toBe(0o600);
    expect((await stat(join(data, 'credentials'))).mode & 0o777).toBe(0o700);

    gate.resolve(false);
    await expect.poll(() => outcomesIn(told)).toEqual(['cloned']);
    expect(registry.fetches.isFetching(repository.id)).toBe(false);
    expect((await ask(`/repos/${repository.id}/contents/plan.xlsx`)).status).toBe(200);
    expect(await placesOfSecrets(data, own)).toEqual([]);
    expect(SECRETS.filter((secret) => text.includes(secret) || told.join().includes(secret))).toEqual([]);
  });

  it('is not fetched from the target of a redirect, and the response names that target', async () => {
    await external();
    const other = await startGitHttpServer(join(root, 'host'));
    const server = await startGitHttpServer(join(root, 'host'));
    server.intercept = ({ url = '' }, response) => {
      response.writeHead(302, { location: `${other.origin}/new${url}` }).end();
      return true;
    };
    const { create } = await start();
    const body = { url: `${server.origin}/plan.git`, username: 'reader', password: PASSWORD };
    const answer = await refusal(await create(body));
    expect(answer.slice(0, 2)).toEqual([422, 'unreachable']);
    expect(answer[2]).toContain(`Use the address ${other.origin}/new/plan.git`);
    expect(other.requests).toEqual([]);
    expect(server.requests.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
  });

  it('is cloned by the next service when this one is stopped before', async () => {
    const path = await external();
    const server = await startGitHttpServer(join(root, 'host'), `reader:${PASSWORD}`);
    const arrived = holdClone(server, new Promise(() => {}));
    const first = await start();
    const body = { url: `${server.origin}/plan.git`, username: 'reader', password: PASSWORD };
    const { id } = await created(await first.create(body));
    await arrived;
    await first.close();
    expect(told).toEqual([]);

    // A power cut leaves this: a lock without a holder, half a download, credentials of a repository that does not exist.
    const gitDirectory = first.registry.gitDirectory(id);
    await initialise(git, gitDirectory);
    await writeFile(join(gitDirectory, 'refs', 'heads', 'main.lock'), '');
    await writeFile(join(gitDirectory, 'packed-refs.lock'), '');
    await writeFile(join(gitDirectory, 'objects', 'pack', 'tmp_pack_x'), 'x');
    await writeFile(join(gitDirectory, '../../credentials', crypto.randomUUID()), 'x');
    server.intercept = () => false;
    const second = await start();
    expect(second.registry.list().map((row) => row.id)).toEqual([id]);
    await expect.poll(() => outcomesIn(told)).toEqual(['cloned']);
    expect(await headsOf(gitDirectory)).toEqual(await headsOf(path));
    expect(await readdir(join(gitDirectory, 'objects', 'pack'))).not.toContain('tmp_pack_x');
    expect(await readdir(join(gitDirectory, '../../credentials'))).toEqual([id]);
  });

  it('is retried when its first clone fails, and only the first failure is reported', async () => {
    await external();
    const server = await startGitHttpServer(join(root, 'host'));
    const { registry, create } = await start();
    server.intercept = (_, response) => {
      if (server.requests.length <= 2) return false;
      response.writeHead(500).end();
      return true;
    };
    const { id } = await created(await create({ url: `${server.origin}/plan.git` }));
    await expect.poll(() => outcomesIn(told)).toEqual(['failing']);
    const asked = server.requests.length;
    expect(registry.fetches.soon(id)).toBe(true);
    await expect.poll(() => server.requests.length).toBeGreaterThan(asked);
    server.intercept = () => false;
    expect(registry.fetches.soon(id)).toBe(true);
    await expect.poll(() => outcomesIn(told)).toEqual(['failing', 'cloned', 'recovered']);
  });

  it('is not fetched if the setting no longer allows its address', async () => {
    await external();
    const { origin } = await startGitHttpServer(join(root, 'host'));
    const { id, close } = await startCloned(`${origin}/plan.git`);
    await close();
    sources = 'https';
    const second = await start();
    await expect(second.registry.fetches.fetch(id)).rejects.toThrow(/serve\.sources/);
    expect((await second.ask(`/repos/${id}/contents`)).status).toBe(200);
  });
});

describe('the branches of external repositories', () => {
  it('follow the remote, for any changes', async () => {
    const path = await external();
    await commitPlan(path, 'topic', 'topic', 'refs/heads/main');
    const { registry, create } = await start();
    const { id } = await created(await create({ url: path }));
    registry.fetches.startComparing(40);
    const inStep = async (): Promise<void> => {
      const expected = await headsOf(path);
      await expect.poll(() => headsOf(registry.gitDirectory(id))).toEqual(expected);
    };
    await inStep();
    await commitPlan(path, 'main', 'two', (await readBranches(git, path)).heads.get('main'));
    await inStep();
    // Undo the change.
    await git.run(path, ['update-ref', 'refs/heads/main', 'refs/heads/topic~1']);
    await inStep();
    // Something in the way of something new, and another default branch.
    await git.run(path, ['update-ref', '-d', 'refs/heads/topic']);
    await commitPlan(path, 'topic/below', 'below', 'refs/heads/main');
    await git.run(path, ['symbolic-ref', 'HEAD', 'refs/heads/topic/below']);
    await git.run(path, ['update-ref', '-d', 'refs/heads/main']);
    await inStep();
    await expect
      .poll(async () => (await readBranches(git, registry.gitDirectory(id))).defaultBranch)
      .toBe('topic/below');
    expect(new Set(outcomesIn(told))).toEqual(new Set(['cloned', 'fetched']));
    await expect.poll(() => registry.fetches.isFetching(id)).toBe(false);
  });

  it('stay when a fetch fails, and that is reported once', async () => {
    const path = await external();
    const { registry, id } = await startCloned(path);
    const before = await headsOf(registry.gitDirectory(id));
    await rename(path, `${path}.away`);
    registry.fetches.soon(id);
    await expect.poll(() => told.length).toBe(2);
    registry.fetches.soon(id);
    await expect(registry.fetches.fetch(id)).rejects.toThrow(/cannot be read/);
    expect(await headsOf(registry.gitDirectory(id))).toEqual(before);
    // A complete list of references with missing objects.
    await rename(`${path}.away`, path);
    await commitPlan(path, 'new', 'new');
    await git.run(path, ['update-ref', '-d', 'refs/heads/main']);
    await rename(join(path, 'objects'), join(path, 'objects.away'));
    await mkdir(join(path, 'objects'));
    await expect(registry.fetches.fetch(id)).rejects.toThrow();
    expect(await headsOf(registry.gitDirectory(id))).toEqual(before);
    await rename(join(path, 'objects'), join(path, 'objects.empty'));
    await rename(join(path, 'objects.away'), join(path, 'objects'));
    registry.fetches.soon(id);
    await expect.poll(() => outcomesIn(told)).toEqual(['cloned', 'failing', 'fetched', 'recovered']);
    expect(Object.keys(await headsOf(registry.gitDirectory(id)))).toEqual(['new']);
  });

  it('cost one request while nothing changes', async () => {
    await external();
    const server = await startGitHttpServer(join(root, 'host'));
    const { registry, id } = await startCloned(`${server.origin}/plan.git`);
    server.requests.length = 0;
    await registry.fetches.fetch(id);
    expect(server.requests.filter(({ line }) => line.startsWith('GET'))).toHaveLength(1);
    expect(told).toHaveLength(1);
    expect(registry.fetches.soon((await registry.create('Drag')).id)).toBe(false);
  });
});
