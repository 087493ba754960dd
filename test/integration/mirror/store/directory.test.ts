import { cpSync, renameSync, writeFileSync } from 'node:fs';
import { cp, lstat, mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { rot } from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { type HarnessSettings, startPair } from '../../../support/mirror-harness.ts';

const DAY_MS = 86_400_000;

async function startMirrored(settings: HarnessSettings = {}) {
  const { service, mirror } = await startPair({ etag: 'strong', conditional: true }, settings);
  const repository = service.addRepository('Accounting', {
    'plan.xlsx': 'the plan',
    'notes.txt': 'some notes',
    'same.xlsx': 'the same',
  });
  service.addRepository('Other', { 'plan.xlsx': 'another plan' });
  await mirror.pass();
  return { service, mirror, repository };
}

it('changed bytes on disk, with unchanged metadata, are found and repaired by the full check', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const { mirror } = await startMirrored();
  const folder = join(mirror.directory, 'mirror/Accounting/main');
  const { ino } = await lstat(join(folder, 'same.xlsx'));
  await rot(join(folder, 'notes.txt'));
  await mirror.exactPass({ aheadMs: DAY_MS });
  expect((await lstat(join(folder, 'same.xlsx'))).ino).toBe(ino);
  const pulled = { target: 'Accounting/main', reason: 'full-check', changed: 1 };
  expect(mirror.eventsOf('target.pulled').at(-1)).toMatchObject(pulled);
  expect((await mirror.pass()).summary).toMatchObject({ pulled: 0 });
});

describe('a mirror that was restored from an older backup', () => {
  it('is brought up to date, and is not called fresh before', async () => {
    const { service, mirror, repository } = await startMirrored();
    const backup = `${mirror.directory}-backup`;
    await cp(mirror.directory, backup, { recursive: true, preserveTimestamps: true });
    service.write(repository, 'main', 'plan.xlsx', 'a newer plan');
    await mirror.pass();
    await mirror.whileClosed(async () => {
      for (const folder of ['mirror', 'manifests']) {
        await rm(join(mirror.directory, folder), { recursive: true });
        await rename(join(backup, folder), join(mirror.directory, folder));
      }
      await rm(backup, { recursive: true });
    });
    const report = await mirror.results();
    expect(report['Accounting/main']).toMatchObject({ reason: 'versions-changed', outcome: 'pulled' });
    expect(report['Other/main']).toMatchObject({ outcome: 'kept' });
    await mirror.expectExact();
  });

  it('is compared with its manifests if its private folder is missing, and repaired, even if the first process did not do it', async () => {
    const { service, mirror } = await startMirrored();
    await mirror.whileClosed(async () => {
      await rm(join(mirror.directory, '.workbook-mirror'), { recursive: true });
      const file = join(mirror.directory, 'mirror/Accounting/main/plan.xlsx');
      await writeFile(file, 'of another time than its manifest');
    });
    service.fault = () => ({ kind: 'status', status: 500 });
    await mirror.failure();
    service.fault = null;
    await mirror.restart();
    service.takeRequests();
    const report = await mirror.results();
    expect(report['Accounting/main']).toMatchObject({ reason: 'drift', outcome: 'pulled' });
    expect(report['Other/main']).toMatchObject({ outcome: 'kept' });
    expect(service.takeDownloads()).toHaveLength(1);
    await mirror.restart();
    expect((await mirror.results())['Accounting/main']).toMatchObject({ outcome: 'kept' });
    await mirror.expectExact();
  });
});

describe('a directory that was replaced after it was opened', () => {
  it('is not written to while it is replaced, and is used again when it is back', async () => {
    const { service, mirror, repository } = await startMirrored();
    const aside = `${mirror.directory}-aside`;
    await rename(mirror.directory, aside);
    service.write(repository, 'main', 'plan.xlsx', 'a newer plan');
    expect(await mirror.failure()).toMatchObject({ code: 'directory.replaced' });
    await mkdir(mirror.directory);
    expect(await mirror.failure()).toMatchObject({ code: 'directory.replaced' });
    await cp(aside, mirror.directory, { recursive: true, preserveTimestamps: true });
    const stamps = await mirror.stamps();
    expect(await mirror.failure()).toMatchObject({ code: 'directory.replaced' });
    expect(await mirror.stamps()).toEqual(stamps);
    await rm(mirror.directory, { recursive: true });
    await rename(aside, mirror.directory);
    expect((await mirror.exactPass()).exitCode).toBe(0);
  });

  it('is noticed during a pass, too', async () => {
    const { service, mirror, repository } = await startMirrored();
    const aside = `${mirror.directory}-aside`;
    service.write(repository, 'main', 'plan.xlsx', 'a newer plan');
    service.knobs.beforeDownload = () => {
      service.knobs.beforeDownload = null;
      // The download itself goes into the stage that was opened; what counts is that it is not published here.
      renameSync(mirror.directory, aside);
      cpSync(aside, mirror.directory, { recursive: true, preserveTimestamps: true });
    };
    const before = await mirror.tree('Accounting/main');
    expect(await mirror.failure()).toMatchObject({ code: 'directory.replaced' });
    expect(await mirror.tree('Accounting/main')).toEqual(before);
    await rm(mirror.directory, { recursive: true });
    await rename(aside, mirror.directory);
    expect((await mirror.exactPass()).exitCode).toBe(0);
  });
});

const THEIRS = 'pid 7 on elsewhere since 2025-01-01T00:00:00.000Z\n';

it('a directory whose lock another instance took is noticed before the next publish, which ends the pass', async () => {
  const { service, mirror, repository } = await startMirrored();
  service.write(repository, 'main', 'plan.xlsx', 'a newer plan');
  service.knobs.beforeDownload = () => {
    service.knobs.beforeDownload = null;
    writeFileSync(join(mirror.directory, '.workbook-mirror/lock'), THEIRS);
  };
  const before = await mirror.tree('Accounting/main');
  expect(await mirror.failure()).toMatchObject({ code: 'directory.taken' });
  expect(await mirror.tree('Accounting/main')).toEqual(before);
});

it.each([
  ['mirror/org', 'mirror'],
  ['manifests/org', 'manifests'],
  ['history/org', 'history'],
])('foreign links below the directory are not followed: %s', async (link, folder) => {
  const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
  const repository = service.addRepository('org/plan.git', { 'plan.xlsx': 'v1' });
  service.addRepository('Other', { 'plan.xlsx': 'x' });
  await mirror.pass();
  const outside = await temporaryFolder();
  const place = join(mirror.directory, link);
  const aside = join(outside, 'org');
  if (folder === 'history') await mkdir(aside);
  else await rename(place, aside);
  await symlink(aside, place);
  const before = await readdir(aside, { recursive: true });
  service.write(repository, 'main', 'plan.xlsx', 'v2');
  await mirror.pass().catch(() => {});
  service.removeRepository(repository);
  await mirror.pass().catch(() => {});
  await mirror.pass().catch(() => {});
  expect(await readdir(aside, { recursive: true })).toEqual(before);
});
