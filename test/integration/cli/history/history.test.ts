import {
  appendFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { approveHere } from '../../../support/tasks.ts';
import { describeHistory, listHistory } from '../../../../src/cli/history/history.ts';
import { restoreHistory } from '../../../../src/cli/history/restore.ts';
import type { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { type MirrorHarness, startMirrored, startPair } from '../../../support/mirror-harness.ts';
import { textsIn } from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const DAY_MS = 86_400_000;

/** The code and the hint with which a restore is refused; the code `restored` if it is not. */
function refusalOf({ diskSettings }: MirrorHarness, request: Parameters<typeof restoreHistory>[1]) {
  return restoreHistory(diskSettings, request).then(
    () => ({ code: 'restored', hint: '' }),
    (error: MirrorError) => error,
  );
}

/** The contents of the history, by target: kind, and the text of one file. */
async function kept(mirror: MirrorHarness, file = 'plan.xlsx'): Promise<[string, string][]> {
  const list = await listHistory(mirror.diskSettings, null);
  return Promise.all(
    list.map(async ({ kind, folder }) => [kind, await readFile(join(folder, file), 'utf8').catch(() => '')]),
  );
}

/** A mirror that has retired Gone, and kept another repository. */
async function retired(files: Readonly<Record<string, string>> = { 'plan.xlsx': 'one' }) {
  const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
  const gone = service.addRepository('Gone', files);
  const kept = service.addRepository('Kept', { 'plan.xlsx': 'x' });
  await mirror.pass();
  const published = await mirror.stamps();
  service.removeRepository(gone);
  await mirror.pass();
  const restored = (): Promise<unknown> =>
    mirror.whileClosed(() =>
      restoreHistory(mirror.diskSettings, { target: 'Gone/main', atMs: null, to: null }),
    );
  return { service, mirror, gone, kept, published, restored };
}

describe('trees deleted from the service', () => {
  it('are listed, restored into a folder next to the daemon, and pruned when their time is over', async () => {
    const { mirror, published } = await retired({ 'plan.xlsx': 'one', 'notes/a.txt': 'two' });
    const [entry] = await listHistory(mirror.diskSettings, 'Gone/main');
    expect(entry).toMatchObject({ target: 'Gone/main', kind: 'retired', files: 2, sizeBytes: 6 });
    expect(String(describeHistory(entry === undefined ? [] : [entry]))).toContain('Gone/main  retired');

    const to = join(await temporaryFolder(), 'a/b');
    await mkdir(to, { recursive: true, mode: 0o700 });
    const request = { target: 'mirror/Gone/main/', atMs: null, to };
    expect(await restoreHistory(mirror.diskSettings, request)).toMatchObject({ files: 2, folder: to });
    expect(await readFile(join(to, 'notes/a.txt'), 'utf8')).toBe('two');
    expect((await lstat(to)).mode & 0o777).toBe(0o700);
    const { mtimeMs } = await lstat(join(to, 'plan.xlsx'));
    expect(published['Gone/main/plan.xlsx']?.split(' ')).toContain(`${mtimeMs}000000`);
    expect(await refusalOf(mirror, request)).toMatchObject({ code: 'history.occupied' });
    const locked = await refusalOf(mirror, { ...request, to: null });
    expect(locked).toMatchObject({ code: 'directory.locked' });
    expect(locked.hint).toContain('--to FOLDER');
    const inside = join(mirror.directory, 'mirror/x');
    expect(await refusalOf(mirror, { ...request, to: inside })).toMatchObject({ code: 'usage.invalid' });

    await mirror.pass({ aheadMs: 29 * DAY_MS });
    expect(await kept(mirror)).toHaveLength(1);
    // This machine's clock alone is no reason to prune: the service's says that the time has not come.
    await mirror.pass({ aheadMs: 31 * DAY_MS });
    expect(await kept(mirror)).toHaveLength(1);
    await mirror.restart({ HISTORY_RETIRED: 'off' });
    await mirror.pass();
    expect(await kept(mirror)).toEqual([]);
    expect(await readdir(join(mirror.directory, 'history'))).toEqual([]);
    expect(mirror.eventsOf('history.pruned')).toMatchObject([
      { entry: expect.stringMatching(/^Gone\/main\//) as string },
    ]);
  });

  it('return into the mirror with one command, and stay until the service has them or an approval', async () => {
    const { mirror, restored } = await retired();
    await restored();
    expect((await mirror.tree('Gone/main')).get('plan.xlsx')?.toString()).toBe('one');
    const request = { target: 'Gone/main', atMs: null, to: null };
    const occupied = await mirror.whileClosed(() => refusalOf(mirror, request));
    const message = expect.stringContaining('which was restored from the history, is there') as string;
    expect(occupied).toMatchObject({ message });
    expect((await mirror.pass()).exitCode).toBe(1);
    await mirror.pass();
    expect(await mirror.targets()).toEqual(['Gone/main', 'Kept/main']);
    expect(mirror.eventsOf('deletion.held')).toMatchObject([{ target: 'Gone/main', subject: 'restored' }]);
    await approveHere(mirror.diskSettings, ['Gone/main']);
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it('follow the service again once it has them', async () => {
    const { service, mirror, gone, restored } = await retired();
    await restored();
    await mirror.pass();
    service.repositories.push(gone);
    expect((await mirror.pass({ aheadMs: 1000 })).exitCode).toBe(0);
    service.write(gone, 'main', 'plan.xlsx', 'three');
    await mirror.pass({ aheadMs: 2000 });
    await mirror.expectExact();
    service.removeRepository(gone);
    await mirror.pass({ aheadMs: 3000 });
    await mirror.expectExact();
  });

  it('are not restored if damaged, nor over a mirrored tree', async () => {
    const { service, mirror, kept: heir } = await retired();
    service.renameRepository(heir, 'Gone');
    await mirror.pass();
    const request = { target: 'Gone/main', atMs: null, to: null };
    const occupied = await mirror.whileClosed(() => refusalOf(mirror, request));
    expect(occupied).toMatchObject({ code: 'history.occupied' });
    const [entry] = await listHistory(mirror.diskSettings, 'Gone/main');
    await appendFile(join(entry?.folder ?? '', 'plan.xlsx'), '!');
    const to = join(await temporaryFolder(), 'x');
    expect(await refusalOf(mirror, { ...request, to })).toMatchObject({ code: 'history.damaged' });
    await rm(`${entry?.folder ?? ''}.json`);
    expect(await refusalOf(mirror, { ...request, to })).toMatchObject({ code: 'history.damaged' });
    expect(String(describeHistory(await listHistory(mirror.diskSettings, null)))).toContain('?');
    const other = { ...request, target: 'Gon/main', to };
    expect(await refusalOf(mirror, other)).toMatchObject({ code: 'target.unknown' });
  });
});

describe('trees that a newer state replaced', () => {
  it.each(['auto', 'exchange', 'rename'])(
    'are kept as set, without what did not change (%s)',
    async (publish) => {
      const { service, mirror, repository } = await startMirrored(
        'A',
        {
          'plan.xlsx': 'v0',
          'same.xlsx': 'same',
          'old.xlsx': 'old',
        },
        { PUBLISH: publish, HISTORY_REPLACED: '2' },
      );
      for (const version of ['v1', 'v2', 'v3']) {
        service.write(repository, 'main', 'plan.xlsx', version);
        if (version === 'v2') service.remove(repository, 'main', 'old.xlsx');
        await mirror.pass();
        await mirror.expectExact();
      }
      expect(await kept(mirror)).toEqual([
        ['replaced', 'v1'],
        ['replaced', 'v2'],
      ]);
      const list = await listHistory(mirror.diskSettings, 'A/main');
      expect(list.map(({ files }) => files)).toEqual([3, 2]);
      const kinds = await Promise.all(list.map(({ folder }) => readdir(folder)));
      expect(kinds).toEqual([['old.xlsx', 'plan.xlsx'], ['plan.xlsx']]);
    },
  );

  it('restore every listed state, byte for byte, after any changes and pruning', async () => {
    const files = fc.dictionary(fc.constantFrom('a', 'b', 'c/d', 'c/e'), fc.constantFrom('1', '2', '3'));
    const count = fc.integer({ min: 1, max: 3 });
    const mode = fc.constantFrom('auto', 'exchange', 'rename', 'link');
    await fc.assert(
      fc.asyncProperty(
        fc.array(files, { minLength: 2, maxLength: 7 }),
        count,
        mode,
        async (states, kept, publish) => {
          const settings = { PUBLISH: publish, HISTORY_REPLACED: String(kept), GUARD_FILES: 'off' };
          const { service, mirror } = await startPair({}, settings);
          const repository = service.addRepository('A', { 'x.xlsx': '0' });
          const had = new Map<string, Awaited<ReturnType<typeof textsIn>>>();
          await mirror.pass();
          for (const state of states) {
            const branch = repository.branches.get('main');
            for (const path of branch?.files.keys() ?? [])
              if (path !== 'x.xlsx' && !(path in state)) service.remove(repository, 'main', path);
            for (const [path, text] of Object.entries(state)) service.write(repository, 'main', path, text);
            const before = await textsIn(join(mirror.directory, 'mirror/A/main'));
            const known = new Set((await listHistory(mirror.diskSettings, null)).map(({ folder }) => folder));
            await mirror.pass();
            for (const { folder } of await listHistory(mirror.diskSettings, null))
              if (!known.has(folder)) had.set(folder, before);
          }
          for (const { folder, changedAtMs: atMs } of await listHistory(mirror.diskSettings, null)) {
            const to = join(await temporaryFolder(), 'x');
            await restoreHistory(mirror.diskSettings, { target: 'A/main', atMs, to });
            expect(await textsIn(to)).toEqual(had.get(folder));
          }
        },
      ),
      { numRuns: 12 },
    );
  });
});

it('a changed tree in the history is restored from bytes elsewhere: its link in the mirror was edited, or all times are lost', async () => {
  const { service, mirror, repository } = await startMirrored(
    'A',
    { 'plan.xlsx': 'v0', 'same.xlsx': 'same' },
    { HISTORY_REPLACED: '5' },
  );
  const first = await mirror.files('mirror');
  service.write(repository, 'main', 'plan.xlsx', 'v1');
  await mirror.pass();
  const tree = join(mirror.directory, 'mirror/A/main');
  await writeFile(join(tree, 'same.xlsx'), 'edited');
  const settings = mirror.diskSettings;
  const request = { target: 'A/main', atMs: null };
  const folder = await temporaryFolder();
  const damaged = await refusalOf(mirror, { ...request, to: join(folder, 'a') });
  expect(damaged).toMatchObject({ code: 'history.damaged' });
  await mirror.pass({ aheadMs: 2 * DAY_MS });
  await mirror.expectExact();
  const [entry] = await listHistory(settings, 'A/main');
  await utimes(join(entry?.folder ?? '', 'plan.xlsx'), 1, 1);
  await restoreHistory(settings, { ...request, to: join(folder, 'b') });
  for (const [path, bytes] of first) {
    expect(await readFile(join(folder, 'b', path.slice('A/main/'.length)))).toEqual(bytes);
  }
  expect((await lstat(join(folder, 'b/plan.xlsx'))).mtimeMs).toBeGreaterThan(1000);
  const early = { ...request, atMs: Date.parse('2020-01-01'), to: join(folder, 'c') };
  expect(await refusalOf(mirror, early)).toMatchObject({ code: 'history.not_found' });
  const link = join(folder, 'link');
  await symlink(join(mirror.directory, 'mirror'), link);
  const evil = { ...request, to: join(link, 'evil') };
  expect(await refusalOf(mirror, evil)).toMatchObject({ code: 'usage.invalid' });
});

it('the history ignores trees that it did not put there', async () => {
  const { service, mirror } = await startPair({}, { HISTORY_RETIRED: 'off' });
  service.addRepository('A', { 'plan.xlsx': 'v0' });
  const foreign = join(mirror.directory, 'history/A/notes');
  await mkdir(foreign, { recursive: true });
  await writeFile(join(foreign, 'mine.txt'), 'mine');
  await mirror.pass();
  expect(await readFile(join(foreign, 'mine.txt'), 'utf8')).toBe('mine');
  expect(await kept(mirror)).toEqual([]);
});

it('a kept state whose manifest is damaged is listed without its facts', async () => {
  const { mirror } = await retired();
  const [entry] = await listHistory(mirror.diskSettings, null);
  const file = `${entry?.folder ?? ''}.json`;
  await rm(file);
  await mkdir(file);
  expect(await listHistory(mirror.diskSettings, null)).toMatchObject([{ target: 'Gone/main', files: null }]);
});

it('a state that was published before the clock was set back is restored by its listed time', async () => {
  const { service, mirror, repository } = await startMirrored('A', { 'plan.xlsx': 'v1' });
  service.write(repository, 'main', 'plan.xlsx', 'v2');
  await mirror.pass({ aheadMs: 600_000 });
  service.write(repository, 'main', 'plan.xlsx', 'v3');
  await mirror.pass();
  const list = await listHistory(mirror.diskSettings, 'A/main');
  const kept = list.find(({ leftAtMs, changedAtMs }) => leftAtMs < (changedAtMs ?? 0));
  const to = join(await temporaryFolder(), 'x');
  await restoreHistory(mirror.diskSettings, { target: 'A/main', atMs: kept?.leftAtMs ?? 0, to });
  expect(await textsIn(to)).toEqual({ 'plan.xlsx': 'v2' });
});
