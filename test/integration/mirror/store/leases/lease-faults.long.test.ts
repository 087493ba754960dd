import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type * as FileSystem from 'node:fs/promises';
import { link, lstat, mkdir, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, describe, expect, it, vi } from 'vitest';

import { ended } from '../../../../../src/cli/change/lease.ts';
import { writeNewFile } from '../../../../../src/lib/disk/durable.ts';
import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import { leasesInForce, LONGEST_LEASE_MS, sweepLeases } from '../../../../../src/mirror/store/leases.ts';
import { endLease, takeLease } from '../../../../support/leases.ts';
import { startMirrored, startPair } from '../../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

/** The answer of the system to calls on matching paths. */
const faults = vi.hoisted(() => ({
  open: null as [RegExp, string] | null,
  sync: null as [RegExp, string] | null,
  /** Called with the path of a file that was flushed. */
  flushed: null as ((path: string) => Promise<void>) | null,
}));

function refuseAsAsked(fault: [RegExp, string] | null, path: unknown): void {
  if (fault?.[0].test(String(path)) !== true) return;
  const facts = { code: fault[1], errno: -1, syscall: 'open' };
  throw Object.assign(new Error(`${fault[1]}: a fault of the test`), facts);
}

vi.mock('node:fs/promises', async (importOriginal) => {
  const original = await importOriginal<typeof FileSystem>();
  return {
    ...original,
    open: async (...args: Parameters<typeof original.open>) => {
      refuseAsAsked(faults.open, args[0]);
      const handle = await original.open(...args);
      const sync = handle.sync.bind(handle);
      handle.sync = async () => {
        refuseAsAsked(faults.sync, args[0]);
        await sync();
        await faults.flushed?.(String(args[0]));
      };
      return handle;
    },
  };
});

afterEach(() => {
  faults.open = null;
  faults.sync = null;
  faults.flushed = null;
});

it('a lease that the user may not write is refused, with the permissions that it takes', async () => {
  const { mirror } = await startPair();
  faults.open = [/\/leases\//, 'EACCES'];
  await expect(takeLease(mirror)).rejects.toMatchObject({
    code: 'directory.unusable',
    message: 'This user cannot take or end leases: EACCES: a fault of the test.',
  });
});

it('a lease changes no other file, if someone puts a link in the place of its own', async () => {
  const { mirror } = await startPair();
  const other = join(await temporaryFolder(), 'other');
  await writeFile(other, 'secret', { mode: 0o600 });
  faults.flushed = async (path) => {
    if (!/\/leases\/[^/]+$/.test(path)) return;
    await rm(path);
    await symlink(other, path);
  };
  await expect(takeLease(mirror)).rejects.toMatchObject({ code: 'lease.not_granted' });
  expect((await lstat(other)).mode & 0o777).toBe(0o600);
});

describe('a lease that cannot be read', () => {
  it.each(['EIO', 'EACCES'])('for %s may hold: nothing is published', async (code) => {
    const { service, mirror, repository: plan } = await startMirrored('Plan', { 'a.xlsx': '1' });
    const before = service.expectedTrees();
    const lease = await takeLease(mirror);
    service.write(plan, 'main', 'a.xlsx', '2');
    faults.open = [new RegExp(`${lease.id}\\.json$`), code];
    expect(await mirror.results()).toMatchObject({ 'Plan/main': { reason: 'lease', outcome: 'held' } });
    await mirror.expectExact(before);
    await endLease(mirror, lease);
    await mirror.exactPass();
  });

  it('does not count if it is not a lease: a link, a folder, a file during its write', async () => {
    const { mirror } = await startPair();
    const layout = layoutOf(mirror.directory);
    const elsewhere = join(await temporaryFolder(), 'file');
    await writeFile(elsewhere, 'x');
    await symlink(elsewhere, join(layout.leases, 'link.json'));
    await mkdir(join(layout.leases, 'folder.json'));
    await writeFile(join(layout.leases, 'half'), '');
    faults.open = [/half$/, 'EACCES'];
    expect(await leasesInForce(layout, Date.now())).toEqual([]);
  });
});

it('sweeping the folder of the leases removes files only, and nothing that lies in a folder', async () => {
  const { mirror } = await startPair();
  const layout = layoutOf(mirror.directory);
  const outside = join(await temporaryFolder(), 'precious');
  await writeFile(outside, 'x');
  await mkdir(join(layout.leases, 'folder/deeper'), { recursive: true });
  await link(outside, join(layout.leases, 'folder/deeper/file'));
  await writeFile(join(layout.leases, 'old.json'), '{');
  const longAgo = new Date(Date.now() - LONGEST_LEASE_MS - 1000);
  for (const name of ['folder', 'old.json']) await utimes(join(layout.leases, name), longAgo, longAgo);
  await sweepLeases(layout, Date.now());
  expect(await readdir(layout.leases, { recursive: true })).toEqual([
    'folder',
    'folder/deeper',
    'folder/deeper/file',
  ]);
});

it('the command under a lease is awaited although a signal could not be sent to it', async () => {
  const child = spawn('/bin/sh', ['-c', 'read line; exit 7'], { stdio: ['pipe', 'ignore', 'ignore'] });
  const end = ended(child, ['sh']);
  await once(child, 'spawn');
  await new Promise(setImmediate);
  child.emit('error', Object.assign(new Error('kill EPERM'), { code: 'EPERM' }));
  child.stdin.end('go on\n');
  expect(await end).toBe(7);
});

it('a file that cannot be written whole leaves nothing behind', async () => {
  const folder = await temporaryFolder();
  faults.sync = [/file$/, 'EIO'];
  await expect(writeNewFile(join(folder, 'file'), 'text')).rejects.toMatchObject({ code: 'EIO' });
  expect(await readdir(folder)).toEqual([]);
});
