import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { type FakeService } from '../../../support/fake-service.ts';
import { type ZipEntry, buildZip } from '../../../support/zip-builder.ts';
import {
  type HarnessSettings,
  type MirrorHarness,
  startPair,
  treeOf,
} from '../../../support/mirror-harness.ts';

interface Situation {
  readonly service: FakeService;
  readonly mirror: MirrorHarness;
  /** Makes the service give these entries for the one target's new version. */
  readonly give: (zip: Buffer) => void;
}

/** Two mirrored targets, each with a new version; for one of them the service is to give something bad. */
async function situation(settings: HarnessSettings = {}): Promise<Situation> {
  const { service, mirror } = await startPair({}, settings);
  const repository = service.addRepository('Accounting', { 'a.xlsx': 'a', 'x/b.xlsx': 'b' });
  const other = service.addRepository('Other', { 'o.xlsx': 'o' });
  await mirror.pass();
  service.write(repository, 'main', 'a.xlsx', 'a2');
  service.write(other, 'main', 'o.xlsx', 'o2');
  service.takeRequests();
  const give = (body: Buffer): void => {
    service.fault = (path) => (path.includes(`${repository.id}/contents`) ? { kind: 'body', body } : null);
  };
  return { service, mirror, give };
}

async function accounting(mirror: MirrorHarness): Promise<Record<string, string>> {
  const stamps = Object.entries(await mirror.stamps());
  return Object.fromEntries(stamps.filter(([path]) => path.startsWith('Accounting')));
}

const GOOD: ZipEntry = { name: 'a.xlsx', data: 'a2' };

const hostile: readonly [string, readonly ZipEntry[]][] = [
  ['a name that leads out', [GOOD, { name: '../../../../escaped', data: 'x' }]],
  ['an absolute name', [GOOD, { name: '/tmp/escaped', data: 'x' }]],
  ['a name that occurs twice', [GOOD, { name: 'a.xlsx', data: 'other' }]],
  ['a file that is a folder', [GOOD, { name: 'a.xlsx/b', data: 'x' }]],
  ['an encrypted entry', [GOOD, { name: 'secret', data: 'x', flags: 1, method: 8 }]],
  ['an unknown method', [GOOD, { name: 'odd', data: 'x', method: 93 }]],
  ['a path longer than a system takes', [GOOD, { name: `${'d'.repeat(200)}/`.repeat(25) + 'x', data: 'x' }]],
];

const damaged: readonly [string, Buffer][] = [
  ['a wrong CRC', buildZip([GOOD, { name: 'b', data: 'b', crc: 1 }])],
  ['a size that lies', buildZip([GOOD, { name: 'b', data: 'b'.repeat(500), method: 8, size: 7 }])],
  ['an end that is missing', buildZip([GOOD, { name: 'b', data: 'b' }]).subarray(0, -10)],
  ['something behind it', Buffer.concat([buildZip([GOOD]), Buffer.from('trailing')])],
];

describe.each(['exchange', 'rename'])('with publish %s', (publish) => {
  it.each(hostile)('%s puts this version in quarantine, and the others continue', async (_name, entries) => {
    const { service, mirror, give } = await situation({ PUBLISH: publish });
    const before = await accounting(mirror);
    give(buildZip(entries));
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'archive.refused', errorAction: 'quarantine' });
    expect(results['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(await accounting(mirror)).toStrictEqual(before);
    service.takeRequests();
    for (const trigger of ['schedule', 'start', 'settings'] as const) {
      const held = await mirror.results({ trigger });
      expect(held['Accounting/main']).toMatchObject({ action: 'hold', reason: 'quarantined' });
    }
    expect(service.takeDownloads()).toStrictEqual([]);
    service.fault = null;
    const [repository] = service.repositories;
    if (repository !== undefined) service.write(repository, 'main', 'a.xlsx', 'a3');
    await mirror.pass();
    await mirror.expectExact();
  });

  it.each(damaged)('%s is retried, and the others continue', async (_name, zip) => {
    const { service, mirror, give } = await situation({ PUBLISH: publish });
    const before = await accounting(mirror);
    give(zip);
    const results = await mirror.results();
    expect(results['Accounting/main']).toMatchObject({ code: 'archive.damaged', errorAction: 'retry' });
    expect(results['Other/main']).toMatchObject({ outcome: 'pulled' });
    expect(await accounting(mirror)).toStrictEqual(before);
    service.fault = null;
    await mirror.pass();
    await mirror.expectExact();
  });
});

it('a version in quarantine is retried after a while, as other files may have been corrected', async () => {
  const { service, mirror, give } = await situation();
  give(buildZip([GOOD, { name: '../x', data: 'x' }]));
  await mirror.pass();
  service.fault = null;
  await mirror.pass({ trigger: 'schedule', aheadMs: 2 * 3_600_000 });
  await mirror.expectExact();
});

it.each(['command', 'signal'] as const)(
  'a version in quarantine is retried by a pass of trigger %s',
  async (trigger) => {
    const { service, mirror, give } = await situation();
    give(buildZip([GOOD, { name: '../x', data: 'x' }]));
    await mirror.pass();
    expect(await mirror.results({ trigger })).toMatchObject({
      'Accounting/main': { outcome: 'failed', code: 'archive.refused' },
    });
    service.fault = null;
    expect((await mirror.pass({ trigger })).exitCode).toBe(0);
    await mirror.expectExact();
  },
);

it('a version in quarantine for a limit is accepted at the next retry under a new limit', async () => {
  const { service, mirror } = await startPair({}, { ARCHIVE_MAX_ENTRIES: '1' });
  service.addRepository('Accounting', { 'a.xlsx': 'a', 'b.xlsx': 'b' });
  expect(await mirror.results()).toMatchObject({ 'Accounting/main': { code: 'archive.refused' } });
  expect(await mirror.results({ trigger: 'schedule' })).toMatchObject({
    'Accounting/main': { reason: 'quarantined' },
  });
  await mirror.restart({ ARCHIVE_MAX_ENTRIES: '2' });
  expect((await mirror.pass({ trigger: 'command' })).exitCode).toBe(0);
  await mirror.expectExact();
});

it('nothing is written outside the directory, and nothing is left inside it', async () => {
  const { service, mirror, give } = await situation();
  const outside = join(mirror.directory, '..', `escaped-${mirror.directory.split('/').at(-1)}`);
  const name = `../../../../../${outside.split('/').at(-1)}`;
  for (const entry of [name, outside, `x/../../../../../${name}`]) {
    give(buildZip([GOOD, { name: entry, data: 'x' }]));
    await mirror.pass({ aheadMs: 2 * 3_600_000 });
    await expect(readFile(outside)).rejects.toMatchObject({ code: 'ENOENT' });
  }
  service.fault = null;
  const [repository] = service.repositories;
  if (repository !== undefined) service.write(repository, 'main', 'a.xlsx', 'a3');
  await mirror.pass();
  await mirror.expectExact();
});

it('a link is omitted, named in the manifest and in the log, and not followed', async () => {
  const { mirror, give } = await situation();
  const outside = join(mirror.directory, 'outside');
  await mkdir(outside);
  await writeFile(join(outside, 'kept'), 'kept');
  give(
    buildZip([
      GOOD,
      { name: 'x/b.xlsx', data: 'b' },
      { name: 'link', data: outside, mode: 0o120777 },
      { name: 'x/up', data: '../../../..', mode: 0o120777 },
    ]),
  );
  await mirror.pass();
  expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ 'a.xlsx': 'a2', 'x/b.xlsx': 'b' }));
  const { skipped } = await mirror.manifest('Accounting/main');
  expect(skipped).toStrictEqual([
    { path: 'link', reason: 'symbolic-link' },
    { path: 'x/up', reason: 'symbolic-link' },
  ]);
  expect(mirror.eventsOf('target.skipped_entries')).toMatchObject([{ count: 2 }]);
  expect(await readdir(outside)).toStrictEqual(['kept']);
});

it.each(['folder', 'y/folder'])(
  'an entry that only the directory calls a folder makes no file: %s',
  async (name) => {
    const { service, mirror } = await startPair();
    service.addRepository('Accounting', { 'a.xlsx': 'a', 'x/b.xlsx': 'b' });
    const body = buildZip([
      { name: 'a.xlsx', data: 'a' },
      { name: 'x/b.xlsx', data: 'b' },
      { name, data: '', mode: 0o040755 },
    ]);
    service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body } : null);
    await mirror.pass();
    await mirror.expectExact();
  },
);

it('a link in an archive with one leading folder is named without that folder', async () => {
  const { mirror, give } = await situation();
  give(
    buildZip([
      { name: 'plan/a.xlsx', data: 'a2' },
      { name: 'plan/x/b.xlsx', data: 'b' },
      { name: 'plan/link', data: '/etc', mode: 0o120777 },
    ]),
  );
  await mirror.pass();
  expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ 'a.xlsx': 'a2', 'x/b.xlsx': 'b' }));
  expect((await mirror.manifest('Accounting/main')).skipped).toMatchObject([{ path: 'link' }]);
});

it('names that the program uses itself are valid', async () => {
  const { service, mirror } = await startPair();
  const names = [
    'intent.json',
    'manifest.json',
    'archive.zip',
    'tree/tree',
    '.workbook-mirror/lock',
    'mirror/x',
  ];
  service.addRepository('Accounting', Object.fromEntries(['a.xlsx', ...names].map((name) => [name, name])));
  await mirror.pass();
  await mirror.expectExact();
});

it('names in old code pages reach the disk decoded', async () => {
  const { mirror, give } = await situation();
  const name = Buffer.from([0x67, 0x72, 0x94, 0xe1, 0x65]);
  give(buildZip([GOOD, { name: 'x/b.xlsx', data: 'b' }, { name, data: 'x' }]));
  await mirror.pass();
  const paths = [...(await mirror.tree('Accounting/main')).keys()].sort();
  expect(paths).toStrictEqual(['a.xlsx', 'größe', 'x/b.xlsx']);
});

it('a large unchanged file is not written by the full check', async () => {
  const { service, mirror } = await startPair({}, { CONTENT: 'all' });
  service.addRepository('Plan', { 'a.bin': 'x'.repeat(9 * 1024 * 1024), 'small.txt': 'small' });
  await mirror.pass();
  const stamps = await mirror.stamps();
  for (const days of [2, 4]) {
    const { summary } = await mirror.pass({ aheadMs: days * 24 * 3_600_000 });
    expect(summary.changed).toBe(0);
  }
  expect(await mirror.stamps()).toStrictEqual(stamps);
});
