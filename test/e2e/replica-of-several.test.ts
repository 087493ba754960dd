import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { FakeService } from '../support/fake-service.ts';
import { run, type Running, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A service and a mirror of it. */
interface Mirrored {
  readonly service: FakeService;
  readonly directory: string;
  readonly sync: () => Promise<void>;
}

async function mirrored(...names: readonly string[]): Promise<Mirrored> {
  const service = await FakeService.start({});
  onTestFinished(() => service.close());
  for (const name of names)
    service.addRepository(name, { 'plan.xlsx': `plan of ${name}`, 'a/b.xlsx': `b of ${name}` });
  const directory = join(await temporaryFolder(), 'mirrored');
  const settings = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: service.apiKey,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: service.apiToken,
    WORKBOOK_MIRROR_GUARD_TARGETS: 'off',
    WORKBOOK_MIRROR_DIRECTORY: directory,
  };
  const sync = async (): Promise<void> => {
    expect((await run(['sync'], settings)).exitCode).toBe(0);
  };
  await sync();
  return { service, directory, sync };
}

const KEYS = { WORKBOOK_MIRROR_SERVE_API_KEY: 'key', WORKBOOK_MIRROR_SERVE_API_TOKEN: 'token' };

function serveArguments(...directories: readonly string[]): string[] {
  const flags = directories.flatMap((directory) => ['--directory', directory]);
  return ['serve', '--from-mirror', ...flags, '--serve-listen', '127.0.0.1:0'];
}

/** A replica of several mirrors, and a mirror of that. */
async function replicaOf(...directories: readonly string[]) {
  const serve: Running = start(serveArguments(...directories), KEYS);
  await serve.prints(/^http:/m);
  const baseUrl = serve.stdout().trim();
  const directory = join(await temporaryFolder(), 'second');
  const settings = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: 'token',
    WORKBOOK_MIRROR_GUARD_TARGETS: 'off',
    WORKBOOK_MIRROR_DIRECTORY: directory,
  };
  return {
    serve,
    sync: async () => (await run(['sync'], settings)).exitCode,
    names: () => readdir(join(directory, 'mirror')),
    ask: async (path: string) => {
      const answer = await fetch(`${baseUrl}${path}`, { headers: { 'x-api-key': 'key' } });
      return { status: answer.status, text: await answer.text() };
    },
  };
}

describe('serve --from-mirror of several directories', () => {
  it('answers for all of them, and follows each', async () => {
    const a = await mirrored('Accounting', 'Sales');
    const b = await mirrored('Budget', 'Quality');
    const replica = await replicaOf(a.directory, b.directory);
    expect(replica.serve.stderr()).toContain(`Serving the mirror ${a.directory}, read-only: 2 repositories`);
    expect(replica.serve.stderr()).toContain(`Serving the mirror ${b.directory}, read-only: 2 repositories`);
    expect(await replica.sync()).toBe(0);
    expect(await replica.names()).toEqual(['Accounting', 'Budget', 'Quality', 'Sales']);
    const list = JSON.parse((await replica.ask('/repos')).text) as { full_name: string }[];
    expect(list.map((each) => each.full_name)).toEqual(['Accounting', 'Budget', 'Quality', 'Sales']);
    const [budget] = b.service.repositories;
    if (budget === undefined) throw new Error('no repository');
    b.service.write(budget, 'main', 'plan.xlsx', 'changed');
    await b.sync();
    expect(await replica.sync()).toBe(0);
    expect(await replica.ask('/repos/Budget/contents/plan.xlsx')).toEqual({ status: 200, text: 'changed' });
  });

  it('does not start where names or ids meet, and says which', async () => {
    const a = await mirrored('Accounting', 'Sales');
    const b = await mirrored('Quality', 'Sales');
    const refused = await run(serveArguments(a.directory, b.directory), KEYS);
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
    expect(refused.stderr).toContain(`Sales is in ${a.directory} and in ${b.directory}.`);
    const copy = join(await temporaryFolder(), 'copy');
    await cp(a.directory, copy, { recursive: true });
    const twice = await run(serveArguments(a.directory, copy), KEYS);
    expect(twice.exitCode).toBe(2);
    expect(twice.stderr).toContain(`Accounting is in ${a.directory} and in ${copy}.`);
  });

  it('lets nobody delete anything when names come to meet while it runs, and gives all else', async () => {
    const a = await mirrored('Accounting', 'Sales');
    const b = await mirrored('Quality', 'Budget');
    const replica = await replicaOf(a.directory, b.directory);
    expect(await replica.sync()).toBe(0);
    const before = await replica.names();
    const budget = b.service.repositories.find(({ fullName }) => fullName === 'Budget');
    if (budget === undefined) throw new Error('no repository');
    b.service.renameRepository(budget, 'Sales');
    await b.sync();
    // A list that had the first of them alone would be believed when it lacks the other for the second time.
    for (let pass = 0; pass < 3; pass += 1) expect(await replica.sync()).toBe(3);
    expect(await replica.names()).toEqual(before);
    const said = replica.serve.stderr().split(`Sales is in ${a.directory} and in ${b.directory}: the lists`);
    expect(said).toHaveLength(2);
    expect((await replica.ask('/repos/Sales/contents/plan.xlsx')).status).toBe(503);
    expect(await replica.ask('/repos/Quality/contents/plan.xlsx')).toEqual({
      status: 200,
      text: 'plan of Quality',
    });
    b.service.renameRepository(budget, 'Marketing');
    await b.sync();
    expect(await replica.sync()).toBe(0);
    expect(await replica.names()).toEqual(['Accounting', 'Marketing', 'Quality', 'Sales']);
    expect(replica.serve.stderr()).toContain('the lists are given again');
  });

  it('is the only command that takes a directory twice', async () => {
    const { directory } = await mirrored('Accounting');
    const flags = ['--directory', directory, `--directory=${directory}`];
    const commands = [['status'], ['verify'], ['plan'], ['serve'], ['lease', 'list'], ['config', 'show']];
    for (const command of commands) {
      const { exitCode, stderr } = await run([...command, ...flags]);
      expect({ command, exitCode, stderr }).toEqual({
        command,
        exitCode: 2,
        stderr: expect.stringContaining('expected the flag once') as string,
      });
    }
  });

  it('says of which mirror something is wrong', async () => {
    const [a, b] = [await mirrored('Accounting'), await mirrored('Quality')];
    const missing = await run(serveArguments(a.directory, `${b.directory}/none`), KEYS);
    expect(missing.exitCode).toBe(2);
    expect(missing.stderr).toContain(`${b.directory}/none does not exist`);
  });
});
