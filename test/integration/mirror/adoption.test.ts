import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { restoreHistory } from '../../../src/cli/history/restore.ts';
import { readHistory } from '../../../src/mirror/store/history/history.ts';
import { layoutOf } from '../../../src/mirror/store/layout.ts';
import type { FakeService } from '../../support/fake-service.ts';
import { startFake } from '../../support/started-fake.ts';
import { MirrorHarness } from '../../support/mirror-harness.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures/mirror-0.1.0');

/** Passes an hour later find nothing to do; a day later the contents would be compared whole. */
const FIXTURES_MADE_MS = Date.parse('2026-11-26T01:47:00Z');

/** The life of the service that version 0.1.0 mirrored in three passes, with whole trees in its history. */
async function serviceAsMirrored(): Promise<FakeService> {
  const service = await startFake();
  const accounting = service.addRepository('Accounting', {
    'a.xlsx': 'a1',
    'sub/b.xlsx': 'b1',
    'notes.txt': 'notes',
  });
  service.addRepository('git.example.com/org/plan.git', { 'plan.xlsx': 'plan' });
  const gone = service.addRepository('Gone', { 'g.xlsx': 'g' });
  service.write(accounting, 'main', 'a.xlsx', 'a2');
  service.remove(accounting, 'main', 'sub/b.xlsx');
  service.write(accounting, 'main', 'c.xlsx', 'c1');
  service.removeRepository(gone);
  return service;
}

/** A mirror on a copy of a directory of version 0.1.0 (commit 94fbe25), packed with times and links. */
async function adopted(service: FakeService, publish: string, isStateLost: boolean): Promise<MirrorHarness> {
  const directory = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  execFileSync('tar', ['-xzf', join(FIXTURES, `${publish}.tar.gz`), '-C', directory]);
  if (isStateLost) await rm(join(directory, '.workbook-mirror/state.db'));
  const forEver = { HISTORY_REPLACED: '36500d', HISTORY_RETIRED: '36500d' };
  const mirror = await MirrorHarness.open(service, { PUBLISH: publish, ...forEver }, directory);
  onTestFinished(() => mirror.close());
  return mirror;
}

describe.each(['auto', 'exchange', 'rename', 'link'])(
  'a mirror of version 0.1.0 with publish: %s',
  (publish) => {
    it.each([
      ['with its state', false],
      ['whose state is lost', true],
    ])('%s is adopted without a pull', async (_what, isStateLost) => {
      const service = await serviceAsMirrored();
      const mirror = await adopted(service, publish, isStateLost);
      const before = await mirror.stamps();
      expect(
        await mirror.results({ trigger: 'schedule', aheadMs: FIXTURES_MADE_MS + 3_600_000 - Date.now() }),
      ).toMatchObject({
        'Accounting/main': { outcome: 'kept' },
        'git.example.com/org/plan.git/main': { outcome: 'kept' },
      });
      expect(service.takeDownloads()).toStrictEqual([]);
      expect(await mirror.stamps()).toStrictEqual(before);
      await mirror.expectExact();
    });

    it('restores every state of its history, even after later passes', async () => {
      const service = await serviceAsMirrored();
      const mirror = await adopted(service, publish, false);
      const accounting = service.repositories.find(({ fullName }) => fullName === 'Accounting');
      if (accounting === undefined) throw new Error('no repository');
      service.write(accounting, 'main', 'a.xlsx', 'a3');
      await mirror.exactPass();
      const states = [
        ['Accounting/main', { 'a.xlsx': 'a1', 'sub/b.xlsx': 'b1', 'notes.txt': 'notes' }],
        ['Accounting/main', { 'a.xlsx': 'a2', 'sub/b.xlsx': 'b1', 'notes.txt': 'notes' }],
        ['Accounting/main', { 'a.xlsx': 'a2', 'c.xlsx': 'c1', 'notes.txt': 'notes' }],
        ['Gone/main', { 'g.xlsx': 'g' }],
      ] as const;
      const entries = await readHistory(layoutOf(mirror.directory));
      expect(entries.map(({ path }) => path)).toStrictEqual(states.map(([path]) => path));
      for (const [index, [target, files]] of states.entries()) {
        const to = join(await temporaryFolder(), 'restored');
        const atMs = (entries[index]?.atMs ?? 0) - 1;
        await restoreHistory(mirror.diskSettings, { target, atMs, to });
        for (const [path, text] of Object.entries(files))
          expect(await readFile(join(to, path), 'utf8')).toBe(text);
      }
    });
  },
);
