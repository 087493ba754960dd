import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { FakeService } from '../../support/fake-service.ts';
import { startFake } from '../../support/started-fake.ts';
import { startSynced } from '../../support/mirror-commands.ts';

async function otherInstallation(): Promise<FakeService> {
  const other = await startFake();
  other.sequence = 1000;
  other.addRepository('Accounting', { 'a.xlsx': 'of another installation' });
  other.addRepository('Sales', { 's.xlsx': 's' });
  return other;
}

/** A directory that holds two repositories of a service, and another installation. */
async function mirrored() {
  const commands = await startSynced({ Accounting: { 'a.xlsx': 'a' }, Purchases: { 'p.xlsx': 'p' } });
  return { ...commands, other: await otherInstallation() };
}

function treesIn(directory: string): Promise<string[]> {
  return readdir(join(directory, 'mirror'));
}

describe('another service in the same directory', () => {
  it('is held as a whole, with a message everywhere, until approve --all', async () => {
    const { command, service, other, directory, text } = await mirrored();
    const settings = { SERVICE_BASE_URL: other.baseUrl, GUARD_TARGETS: 'off' };
    for (let passes = 0; passes < 3; passes += 1) {
      const { exitCode, stderr } = await command(['sync'], settings);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(service.baseUrl);
      expect(stderr).toContain(other.baseUrl);
      expect(stderr.match(/lists none of the 2 repositories/g)).toHaveLength(1);
      expect(stderr).toMatch(/`workbook-mirror approve --all --directory \S+` mirrors it here all the same/);
    }
    const planned = await command(['plan'], settings);
    expect({ exitCode: planned.exitCode, text: planned.stderr }).toMatchObject({ exitCode: 1 });
    expect(planned.stderr).toContain(other.baseUrl);
    const shown = await command(['status'], settings);
    expect(shown.exitCode).toBe(1);
    expect(shown.stdout).toContain('directory.other_service');
    expect(await treesIn(directory)).toEqual(['Accounting', 'Purchases']);
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a');
    expect(other.takeDownloads()).toEqual([]);

    const approved = await command(['approve', '--all', '--yes'], settings);
    expect(approved.exitCode).toBe(0);
    // A repository that the other service lacks is retired after its second list.
    await command(['sync'], settings);
    expect((await command(['sync'], settings)).exitCode).toBe(0);
    expect(await treesIn(directory)).toEqual(['Accounting', 'Sales']);
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('of another installation');
    // The approval was for once: the way back is held again.
    expect((await command(['sync'], { GUARD_TARGETS: 'off' })).exitCode).toBe(1);
    expect(await treesIn(directory)).toEqual(['Accounting', 'Sales']);
  });

  it('is not assumed for the same service at another address, which is recorded', async () => {
    const { command, service, text } = await mirrored();
    const moved = service.baseUrl.replace('127.0.0.1', 'localhost');
    service.takeDownloads();
    expect((await command(['sync'], { SERVICE_BASE_URL: moved })).exitCode).toBe(0);
    expect(service.takeDownloads()).toEqual([]);
    const inventory = JSON.parse(await text('inventory.json')) as object;
    expect(inventory).toMatchObject({ service: moved });
  });

  it('is recognised even if the inventory has no addresses or is missing', async () => {
    const { command, other, directory } = await mirrored();
    for (const content of ['{}', '']) {
      await writeFile(join(directory, 'inventory.json'), content);
      const { exitCode, stderr } = await command(['sync'], { SERVICE_BASE_URL: other.baseUrl });
      expect({ exitCode, isSaid: stderr.includes('not on record') }).toEqual({ exitCode: 1, isSaid: true });
    }
    expect((await command(['sync'])).exitCode).toBe(0);
  });

  it('includes a new installation at the same address', async () => {
    const { command, service, text } = await mirrored();
    service.repositories.splice(0);
    service.sequence = 1000;
    service.addRepository('Accounting', { 'a.xlsx': 'of another installation' });
    const { exitCode, stderr } = await command(['sync']);
    expect({ exitCode, isSaid: stderr.includes('from the same address') }).toEqual({
      exitCode: 1,
      isSaid: true,
    });
    expect(await text('mirror/Accounting/main/a.xlsx')).toBe('a');
  });

  it('is not assumed for an empty list', async () => {
    const { command, directory } = await mirrored();
    const empty = await startFake();
    const { stderr } = await command(['sync'], { SERVICE_BASE_URL: empty.baseUrl });
    expect(stderr).not.toContain('lists none of');
    expect(await treesIn(directory)).toEqual(['Accounting', 'Purchases']);
  });
});
