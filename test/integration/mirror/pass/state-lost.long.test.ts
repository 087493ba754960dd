import { copyFile, mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { describe, expect, it } from 'vitest';

import type { FakeService } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { hasRedis, startRedis } from '../../../support/stores.ts';

/** Ways to lose the file of the embedded store while the mirror is closed. */
const LOSSES: readonly (readonly [string, (file: string) => Promise<void>])[] = [
  ['is deleted', (file) => rm(file)],
  ['is cut in the middle', (file) => truncate(file, 5000)],
  ['is a folder', (file) => rm(file).then(() => mkdir(file))],
  [
    'has values cut in the middle',
    (file) => withDatabase(file, 'UPDATE kv SET value = substr(value, 1, 40)'),
  ],
];

async function withDatabase(file: string, sql: string): Promise<void> {
  const database = new DatabaseSync(file);
  database.exec(sql);
  database.close();
}

async function startMirrored(settings: Record<string, string> = {}): ReturnType<typeof startPair> {
  const { service, mirror } = await startPair({}, settings);
  for (const name of ['A', 'B', 'C']) service.addRepository(name, { 'plan.xlsx': name, 'notes.txt': 'x' });
  await mirror.pass();
  return { service, mirror };
}

/** Nothing is lost, and nothing that the manifests prove is pulled again. */
async function expectUnharmed(service: FakeService, mirror: MirrorHarness): Promise<void> {
  const stamps = await mirror.stamps();
  service.takeRequests();
  expect((await mirror.pass()).exitCode).toBe(0);
  expect(service.takeDownloads()).toEqual([]);
  expect(await mirror.stamps()).toEqual(stamps);
  const repository = service.named();
  service.write(repository, 'main', 'plan.xlsx', `changed ${service.sequence}`);
  expect((await mirror.exactPass()).exitCode).toBe(0);
}

describe('a state cache that', () => {
  it.each(LOSSES)('%s costs no data and no download', async (_what, lose) => {
    const { service, mirror } = await startMirrored();
    await mirror.whileClosed(() => lose(join(mirror.directory, '.workbook-mirror/state.db')));
    await expectUnharmed(service, mirror);
    await mirror.restart();
    await expectUnharmed(service, mirror);
  });

  it('is of an earlier time claims nothing wrong about the present trees', async () => {
    const { service, mirror } = await startMirrored();
    const file = join(mirror.directory, '.workbook-mirror/state.db');
    const copy = join(mirror.directory, '.workbook-mirror/earlier.db');
    await mirror.whileClosed(() => copyFile(file, copy));
    const repository = service.named();
    service.write(repository, 'main', 'plan.xlsx', 'newer');
    await mirror.pass();
    await mirror.whileClosed(() => copyFile(copy, file));
    await expectUnharmed(service, mirror);
  });

  it.skipIf(!hasRedis)('fails during a pass is reported, and the mirror continues', async () => {
    const redis = await startRedis();
    const { service, mirror } = await startMirrored({ STATE: redis.address });
    await expectUnharmed(service, mirror);
    redis.kill('SIGKILL');
    const repository = service.named();
    service.write(repository, 'main', 'plan.xlsx', 'while it is gone');
    expect((await mirror.exactPass()).exitCode).toBe(0);
    expect(mirror.eventsOf('state.failed').length).toBeGreaterThan(0);
    await mirror.restart();
    await expectUnharmed(service, mirror);
  });

  it('is lost forgets how often a target was missing, so that it is retired later, not sooner', async () => {
    const { service, mirror } = await startMirrored();
    const gone = service.named();
    service.removeRepository(gone);
    await mirror.pass();
    await mirror.whileClosed(() => rm(join(mirror.directory, '.workbook-mirror/state.db')));
    expect((await mirror.pass()).exitCode).toBe(0);
    expect(await mirror.targets()).toContain('A/main');
    expect((await mirror.exactPass()).exitCode).toBe(0);
  });
});

it.each<[string, (file: string) => Promise<void>]>([
  ['is deleted', (file) => rm(file)],
  ['is cut in the middle', (file) => truncate(file, 100)],
  [
    'is of a future format',
    async (file) => writeFile(file, (await readFile(file, 'utf8')).replace('"format": 1', '"format": 99')),
  ],
])('a manifest that %s is written again from the service, and the old tree is kept', async (_what, lose) => {
  const { service, mirror } = await startMirrored();
  await lose(join(mirror.directory, 'manifests/A/main.json'));
  service.takeRequests();
  expect((await mirror.pass()).exitCode).toBe(0);
  expect(service.takeDownloads()).toHaveLength(1);
  await mirror.expectExact();
  expect((await mirror.files('history')).size).toBeGreaterThan(0);
});
