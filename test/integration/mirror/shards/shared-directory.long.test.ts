import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { describeWhole, statusAll, wholeStatus } from '../../../../src/cli/read/status-all.ts';
import { ownerOf } from '../../../../src/mirror/plan/selection.ts';
import { readTargetList } from '../../../../src/mirror/store/documents.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import type { FakeService, FakeRepository } from '../../../support/fake-service.ts';
import { startFake } from '../../../support/started-fake.ts';
import { type HarnessSettings, MirrorHarness } from '../../../support/mirror-harness.ts';

/** Instances that share a directory. */
class Instances {
  readonly service: FakeService;
  readonly all: MirrorHarness[] = [];
  readonly settings: HarnessSettings;

  private constructor(service: FakeService, settings: HarnessSettings) {
    this.service = service;
    this.settings = settings;
  }

  static async start(
    shards: readonly string[],
    repositories: number,
    settings: HarnessSettings = {},
  ): Promise<Instances> {
    const service = await startFake();
    for (let at = 0; at < repositories; at += 1)
      service.addRepository(`team-${at % 3}/Book ${at}`, { 'plan.xlsx': `first of ${at}` });
    const instances = new Instances(service, settings);
    for (const shard of shards) await instances.open(shard);
    return instances;
  }

  get directory(): string {
    return this.all[0]?.directory ?? '';
  }

  async open(shard: string, settings: HarnessSettings = {}): Promise<MirrorHarness> {
    const all = { ...this.settings, ...settings, SHARD: shard };
    const mirror = await MirrorHarness.open(this.service, all, this.all[0]?.directory);
    onTestFinished(() => mirror.close());
    this.all.push(mirror);
    return mirror;
  }

  /** All instances pass, together. */
  async pass(): Promise<void> {
    await Promise.all(this.all.map((mirror) => mirror.pass()));
  }

  async stop(): Promise<void> {
    for (const mirror of this.all) await mirror.stop();
  }

  /** Expects the directory to equal the service. */
  async expectExact(): Promise<void> {
    await this.all[0]?.expectExact();
  }

  /** The targets that the inventory names. */
  async listed(): Promise<string[]> {
    const { targets } = await readTargetList(layoutOf(this.directory));
    return targets.map(({ path }) => path);
  }

  repositoryOf(index: number, count: number): FakeRepository {
    const found = this.service.repositories.find(({ id }) => ownerOf(id, count) === index);
    if (found === undefined) throw new Error(`no repository for ${index}/${count}`);
    return found;
  }
}

const THREE = ['1/3', '2/3', '3/3'];

describe('instances that share a directory', () => {
  it('mirror everything together, each repository once, follow their own changes, and report their shares', async () => {
    const instances = await Instances.start(THREE, 30);
    const { service } = instances;
    const shareOf = (index: number): FakeRepository[] =>
      service.repositories.filter(({ id }) => ownerOf(id, 3) === index);
    await instances.pass();
    await instances.expectExact();
    expect(service.takeDownloads()).toHaveLength(30);
    for (const [at, mirror] of instances.all.entries()) {
      const { summary, exitCode } = await mirror.pass();
      const share = shareOf(at + 1);
      expect(exitCode).toBe(0);
      expect(summary).toMatchObject({ targets: share.length, pulled: 0, failed: 0, held: 0 });
      const { published, others } = await mirror.context.store.inventory.read();
      const ids = published.map(({ repository }) => repository.id);
      expect(ids.sort()).toEqual(share.map(({ id }) => id).sort());
      expect(others).toHaveLength(30 - share.length);
      expect((await mirror.context.state.records()).size).toBe(share.length);
    }
    expect(service.takeDownloads()).toEqual([]);
    expect(await instances.listed()).toEqual(Object.keys(service.expectedTrees()).sort());

    for (const index of [1, 2, 3])
      service.write(instances.repositoryOf(index, 3), 'main', 'plan.xlsx', `new by ${index}`);
    service.addRepository('late', { 'a.xlsx': 'a' });
    await instances.pass();
    await instances.expectExact();
    expect(service.takeDownloads()).toHaveLength(4);
    for (const [at, mirror] of instances.all.entries()) {
      const listing = await mirror.context.service.poll(AbortSignal.timeout(250_000));
      const names = shareOf(at + 1).map(({ fullName }) => fullName);
      // The rows of the others are dropped.
      expect(new Set(listing.workbooks?.map(({ repository }) => repository))).toEqual(new Set(names));
      expect(listing).toMatchObject({ workbooksComplete: true, problems: [] });
    }
  });

  it('take over from one another without a download after a change of the count', async () => {
    const instances = await Instances.start(THREE, 30);
    await instances.pass();
    instances.service.takeDownloads();
    const stamps = await instances.all[0]?.stamps();
    await instances.stop();
    for (const [at, mirror] of instances.all.entries()) await mirror.restart({ SHARD: `${at + 1}/5` });
    for (const index of [4, 5]) await instances.open(`${index}/5`);
    await instances.pass();
    for (const mirror of instances.all) expect((await mirror.pass()).exitCode).toBe(0);
    expect(instances.service.takeDownloads()).toEqual([]);
    instances.service.write(instances.repositoryOf(5, 5), 'main', 'plan.xlsx', 'newer');
    await instances.pass();
    await instances.expectExact();
    expect(instances.service.takeDownloads()).toHaveLength(1);
    // Back to one instance with everything.
    await instances.stop();
    const [first] = instances.all;
    await first?.restart({ SHARD: '' });
    expect((await first?.pass())?.summary).toMatchObject({ targets: 30, pulled: 0, failed: 0 });
    expect(instances.service.takeDownloads()).toEqual([]);
    expect(Object.keys((await first?.stamps()) ?? {})).toEqual(Object.keys(stamps ?? {}));
    await instances.expectExact();
  });

  it('finish the work of others once none of them runs, and leave it to them before', async () => {
    const instances = await Instances.start(['1/2'], 4);
    const [first] = instances.all;
    const left = layoutOf(instances.directory, { index: 3 });
    const isLeft = async (): Promise<boolean[]> => {
      const names = await Promise.all([left.staging, left.trash].map((folder) => readdir(folder)));
      return names.map((each) => each.length > 0);
    };
    await mkdir(join(left.staging, randomUUID(), 'tree'), { recursive: true });
    await mkdir(join(left.trash, `0-${randomUUID()}`), { recursive: true });
    await instances.open('2/2');
    await instances.pass();
    expect(await isLeft()).toEqual([true, true]);
    await instances.stop();
    await first?.restart({ SHARD: '1/5' });
    await first?.pass();
    expect(await isLeft()).toEqual([false, false]);
    const { staging, trash } = layoutOf(instances.directory);
    expect([...(await readdir(staging)), ...(await readdir(trash))]).toEqual([]);
  });

  it.each([[[0, 1]], [[1, 0]]])(
    'give names that meet the same mark, whoever comes first: %o',
    async (order) => {
      const instances = await Instances.start(['1/2', '2/2'], 0);
      const { service } = instances;
      const expected: string[] = [];
      // Some of the pairs of names that differ in case belong to two.
      for (let at = 0; at < 12; at += 1) {
        service.addRepository(`Plan${at}`, { 'a.xlsx': 'upper' });
        const { id } = service.addRepository(`plan${at}`, { 'a.xlsx': 'lower' });
        expected.push(`Plan${at}/main`, `plan${at}~${id.slice(0, 8)}/main`);
      }
      for (const at of order) await instances.all[at]?.pass();
      await instances.pass();
      expect(await instances.all[0]?.targets()).toEqual(expected.sort());
      for (const mirror of instances.all) expect(mirror.eventsOf('target.moved')).toEqual([]);
    },
  );

  it('leave a deleted target to its owner, and wait for its path', async () => {
    const instances = await Instances.start(['1/2', '2/2'], 8, { RETIRE_AFTER_PASSES: '1' });
    await instances.pass();
    const gone = instances.repositoryOf(1, 2);
    instances.service.removeRepository(gone);
    // One of the same name, of the other instance's share.
    let heir = instances.service.addRepository(gone.fullName, { 'plan.xlsx': 'of the heir' });
    while (ownerOf(heir.id, 2) !== 2) {
      instances.service.removeRepository(heir);
      heir = instances.service.addRepository(gone.fullName, { 'plan.xlsx': 'of the heir' });
    }
    const [first, second] = instances.all;
    const target = `${gone.fullName}/main`;
    expect(await second?.results()).toMatchObject({ [target]: { action: 'hold', reason: 'path-occupied' } });
    expect(await first?.results()).toMatchObject({ [target]: { action: 'retire' } });
    expect(await second?.results()).toMatchObject({ [target]: { action: 'pull', outcome: 'pulled' } });
    await instances.expectExact();
  });

  it('report and restore a target lost with its manifest in its own share', async () => {
    const instances = await Instances.start(['1/2', '2/2'], 12);
    await instances.pass();
    const lost = instances.repositoryOf(2, 2);
    await rm(join(instances.directory, 'mirror', lost.fullName), { recursive: true });
    await rm(join(instances.directory, 'manifests', lost.fullName), { recursive: true });
    const [first, second] = instances.all;
    await first?.pass();
    expect(first?.eventsOf('target.lost')).toEqual([]);
    expect(await instances.listed()).toHaveLength(12);
    await second?.pass();
    expect(second?.eventsOf('target.lost')).toEqual([
      { name: 'target.lost', target: `${lost.fullName}/main` },
    ]);
    await instances.expectExact();
    expect(await instances.listed()).toHaveLength(12);
  });

  it('report the whole, which is not better than its worst share', async () => {
    const instances = await Instances.start(THREE, 12);
    const settings = instances.all[0]?.diskSettings;
    if (settings === undefined) throw new Error('no instance');
    const whole = async (aheadMs = 0): Promise<string> => {
      const nowMs = Date.now() + aheadMs;
      const status = await wholeStatus(settings, nowMs);
      return `${status.isWell ? 'well' : 'not well'}\n${String(describeWhole(status, nowMs))}`;
    };
    expect(await whole()).toMatch(/^not well\n0 shards/);
    expect(await statusAll(settings, [])).toBeNull();
    const [first, second, third] = instances.all;
    for (const mirror of [first, second]) {
      await mirror?.pass();
      await mirror?.reportShare();
    }
    expect(await whole()).toMatch(/^not well\n3 shards, 2 well\n! No instance has shard 3/);
    await third?.pass();
    await third?.reportShare();
    expect(await whole()).toMatch(/^well\n3 shards, all well\n\nSHARD/);
    const paths = instances.service.repositories.map(({ fullName }) => `${fullName}/main`).sort();
    const targets = paths.map((target) => ({ target }));
    expect(await statusAll(settings, [])).toMatchObject({ data: { isWell: true, targets } });
    expect(await whole(3_600_000)).toMatch(
      /^not well\n3 shards, 0 well\n! The instance of shard 1 was last at work 60 min ago: its \d+ targets? may be late/,
    );
    // A single instance takes over from all of them.
    await instances.stop();
    const single = await MirrorHarness.open(instances.service, {}, instances.directory);
    onTestFinished(() => single.close());
    expect(await statusAll(settings, [])).toBeNull();
  });

  it('do not report an empty share as a filter without a match', async () => {
    const instances = await Instances.start(['1/2', '2/2'], 1);
    for (const mirror of instances.all) {
      expect((await mirror.pass()).exitCode).toBe(0);
      expect(mirror.eventsOf('selection.empty')).toEqual([]);
    }
    await instances.expectExact();
  });
});

describe('the lock of a shared directory', () => {
  const refused = async (instances: Instances, shard: string): Promise<string> =>
    instances.open(shard).then(
      () => 'opened',
      (error: unknown) => `${(error as { code: string }).code}: ${String(error)}`,
    );

  it('excludes a second instance with the same share, and one for the whole directory', async () => {
    const instances = await Instances.start(['1/2'], 2);
    expect(await refused(instances, '1/2')).toMatch(/^directory.locked: .*Another workbook-mirror works/);
    expect(await refused(instances, '')).toMatch(/^directory.locked: .*Instances that share this directory/);
    expect(await refused(instances, '2/2')).toBe('opened');
  });

  it('excludes instances of another count until all present ones have ended', async () => {
    const instances = await Instances.start(['1/2', '2/2'], 2);
    const [first, second] = instances.all;
    const message = 'Instances work in this directory as shards of 2, and this one is shard 4/5.';
    expect(await refused(instances, '4/5')).toBe(`directory.locked: MirrorError: ${message}`);
    await first?.stop();
    expect(await refused(instances, '4/5')).toContain(message);
    await second?.stop();
    expect(await refused(instances, '4/5')).toBe('opened');
    expect(await refused(instances, '1/2')).toContain('as shards of 5, and this one is shard 1/2.');
  });

  it('is lost to new instances of another count after a file server dropped it', async () => {
    const instances = await Instances.start(['2/2'], 2);
    const [mirror] = instances.all;
    await mirror?.pass();
    // The first instance of that count does this once the server has forgotten the locks of this one.
    await writeFile(layoutOf(instances.directory).wholeLock, 'shards of 1\n');
    await expect(mirror?.pass()).rejects.toMatchObject({ code: 'directory.taken' });
  });

  it('excludes instances with a share while one has the whole directory', async () => {
    const instances = await Instances.start([''], 2);
    expect(await refused(instances, '1/2')).toMatch(/^directory.locked: .*Another workbook-mirror works/);
  });
});
