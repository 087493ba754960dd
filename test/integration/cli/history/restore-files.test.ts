import { lstat, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { listHistory } from '../../../../src/cli/history/history.ts';
import { lookUp } from '../../../../src/cli/history/kept-files.ts';
import { restoreHistory, writeFile as writeOneFile } from '../../../../src/cli/history/restore.ts';
import { findFiles, restoreInto } from '../../../../src/mirror/store/history/restore.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { type MirrorHarness, startMirrored } from '../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const AWKWARD = 'Bücher & "Q1" $HOME \u202e.xlsx';

/** A mirror with two states in its history: one file is gone in the second, another in the published state. */
async function changed(settings: Readonly<Record<string, string>> = {}): Promise<MirrorHarness> {
  const { service, mirror, repository } = await startMirrored(
    'Org/A',
    {
      'plan.xlsx': 'v0',
      'old.xlsx': 'old',
      'Q1/sum.xlsx': 'sum',
      'Q1/deep/notes.txt': 'notes',
      [AWKWARD]: 'a0',
    },
    { HISTORY_REPLACED: '5', ...settings },
  );
  service.write(repository, 'main', 'plan.xlsx', 'v1');
  service.remove(repository, 'main', 'old.xlsx');
  await mirror.pass();
  service.write(repository, 'main', 'plan.xlsx', 'v2');
  service.write(repository, 'main', AWKWARD, 'a2');
  service.remove(repository, 'main', 'Q1/sum.xlsx');
  await mirror.pass();
  return mirror;
}

async function text(mirror: MirrorHarness, path: string, atMs: number | null = null): Promise<string> {
  const chunks: Uint8Array[] = [];
  const request = { target: 'Org/A/main', paths: [path], atMs };
  await writeOneFile(mirror.diskSettings, request, (bytes) => {
    chunks.push(Uint8Array.from(bytes));
    return Promise.resolve();
  });
  return Buffer.concat(chunks).toString();
}

function restore(mirror: MirrorHarness, to: string, paths: readonly string[], atMs: number | null = null) {
  return restoreHistory(mirror.diskSettings, { target: 'mirror/Org/A/main/', paths, atMs, to });
}

describe('single files of the history', () => {
  it.each(['auto', 'link'])('are written out as they were at a time (%s)', async (publish) => {
    const mirror = await changed({ PUBLISH: publish });
    const [first, second] = await listHistory(mirror.diskSettings, 'Org/A/main');
    expect(await text(mirror, 'plan.xlsx')).toBe('v1');
    expect(await text(mirror, AWKWARD)).toBe('a0');
    expect(await text(mirror, './Q1/sum.xlsx')).toBe('sum');
    expect(await text(mirror, 'mirror/Org/A/main/plan.xlsx')).toBe('v1');
    expect(await text(mirror, join(mirror.directory, 'mirror/Org/A/main/plan.xlsx'))).toBe('v1');
    expect(await text(mirror, 'plan.xlsx', first?.leftAtMs)).toBe('v0');
    expect(await text(mirror, 'old.xlsx', first?.changedAtMs)).toBe('old');
    expect(await text(mirror, 'plan.xlsx', second?.leftAtMs)).toBe('v1');
  });

  it('come from the published tree if they did not change since the time', async () => {
    const mirror = await changed();
    const nowMs = Date.now();
    expect(await text(mirror, 'plan.xlsx', nowMs)).toBe('v2');
    const folder = join(await temporaryFolder(), 'x');
    expect(await restore(mirror, folder, ['plan.xlsx'], nowMs)).toMatchObject({ leftAtMs: null, files: 1 });
    const list = '`workbook-mirror history list` shows what is kept.';
    const [first] = await listHistory(mirror.diskSettings, 'Org/A/main');
    const earliest = new Date(first?.changedAtMs ?? 0).toISOString();
    const refused = [
      [nowMs + 3_600_000, list],
      [Date.parse('2020-01-01'), `${list} The earliest state after that is of ${earliest}.`],
    ] as const;
    const code = 'history.not_found';
    for (const [atMs, hint] of refused)
      await expect(text(mirror, 'plan.xlsx', atMs)).rejects.toMatchObject({ code, hint });
    await expect(
      restoreHistory(mirror.diskSettings, { target: 'Org/A/main', atMs: nowMs, to: null }),
    ).rejects.toMatchObject({ hint: `${list} The mirror itself has that state.` });
  });

  it('go into a folder with their own folders, times and modes, each once', async () => {
    const mirror = await changed();
    const folder = join(await temporaryFolder(), 'new/x');
    const paths = ['Q1/', 'Q1/deep/notes.txt', AWKWARD];
    const restored = { target: 'Org/A/main', files: 3, sizeBytes: 10, folder };
    expect(await restore(mirror, folder, paths)).toMatchObject(restored);
    const names = ['Q1', 'Q1/deep', 'Q1/deep/notes.txt', 'Q1/sum.xlsx', AWKWARD];
    expect((await readdir(folder, { recursive: true })).sort()).toEqual(names.sort());
    const [, kept] = await listHistory(mirror.diskSettings, 'Org/A/main');
    const [copy, original] = [join(folder, 'Q1/sum.xlsx'), join(kept?.folder ?? '', 'Q1/sum.xlsx')];
    const { mtimeMs, mode, ino } = await lstat(original);
    expect(await lstat(copy)).toMatchObject({ mtimeMs, mode });
    expect((await lstat(copy)).ino).not.toBe(ino);
    await expect(restore(mirror, folder, ['plan.xlsx'])).rejects.toMatchObject({ code: 'history.occupied' });
    const inside = join(mirror.directory, 'x');
    await expect(restore(mirror, inside, ['plan.xlsx'])).rejects.toMatchObject({ code: 'usage.invalid' });
  });

  it('are refused with a suggestion, or with the state that has them, without any write', async () => {
    const mirror = await changed();
    const parent = await temporaryFolder();
    const hintOf = (paths: readonly string[], atMs: number | null = null): Promise<unknown> =>
      restore(mirror, join(parent, 'x'), paths, atMs).then(
        () => 'restored',
        (error: { code: string; hint?: string }) => [error.code, error.hint ?? ''],
      );
    const [first] = await listHistory(mirror.diskSettings, 'Org/A/main');
    const left = new Date(first?.leftAtMs ?? 0).toISOString();
    for (const [paths, hint] of [
      [['plan.xlsx', 'plam.xlsx'], 'The nearest is "plan.xlsx".'],
      [['old.xlsx'], expect.stringContaining(`It is in the state that left the mirror at ${left}`)],
      [['sums.xlsx'], 'The nearest is "Q1/sum.xlsx".'],
    ] as const)
      expect(await hintOf(paths)).toEqual(['history.not_found', hint]);
    for (const path of ['', '.', '..', '../main/plan.xlsx', '/etc/passwd'])
      expect(await hintOf([path])).toEqual(['history.not_found', expect.anything()]);
    await expect(text(mirror, 'Q1')).rejects.toMatchObject({ code: 'usage.invalid' });
    expect(await readdir(parent)).toEqual([]);
    const file = join(parent, 'file');
    await writeFile(file, 'mine');
    await expect(restore(mirror, file, ['plan.xlsx'])).rejects.toMatchObject({ code: 'history.occupied' });
    expect(await readFile(file, 'utf8')).toBe('mine');
    const other = { target: 'Org/B/main', paths: ['plan.xlsx'], atMs: null, to: join(parent, 'x') };
    await expect(restoreHistory(mirror.diskSettings, other)).rejects.toMatchObject({
      code: 'target.unknown',
    });
  });

  it('are taken from another copy if theirs is damaged, otherwise leave nothing behind', async () => {
    const mirror = await changed();
    const [first, second] = await listHistory(mirror.diskSettings, 'Org/A/main');
    const secret = join(await temporaryFolder(), 'secret');
    await writeFile(secret, 'secret');
    const notes = join(second?.folder ?? '', 'Q1/deep/notes.txt');
    await mkdir(dirname(notes));
    await symlink(secret, notes);
    expect(await text(mirror, 'Q1/deep/notes.txt')).toBe('notes');
    expect(await text(mirror, 'Q1/sum.xlsx')).toBe('sum');
    await rm(join(second?.folder ?? '', 'Q1/sum.xlsx'));
    await mkdir(join(second?.folder ?? '', 'Q1/sum.xlsx'));
    await expect(text(mirror, 'Q1/sum.xlsx')).rejects.toMatchObject({ code: 'history.damaged' });
    await writeFile(join(first?.folder ?? '', 'old.xlsx'), 'new');
    const parent = await temporaryFolder();
    const damaged = {
      code: 'history.damaged',
      message: expect.stringMatching(/^history\/Org\/A\/main\/.*the first is "old\.xlsx"/) as string,
    };
    const atMs = first?.leftAtMs ?? 0;
    await expect(restore(mirror, join(parent, 'x'), ['plan.xlsx', 'old.xlsx'], atMs)).rejects.toMatchObject(
      damaged,
    );
    expect(await readdir(parent)).toEqual([]);
    let written = 0;
    const request = { target: 'Org/A/main', paths: ['old.xlsx'], atMs };
    const write = (bytes: Uint8Array): Promise<void> => {
      written += bytes.length;
      return Promise.resolve();
    };
    await expect(writeOneFile(mirror.diskSettings, request, write)).rejects.toMatchObject(damaged);
    expect(written).toBe(0);
  });

  it('do not exist if a signal came before the last of them', async () => {
    const mirror = await changed();
    const parent = await temporaryFolder();
    const request = { target: 'Org/A/main', paths: ['plan.xlsx', 'Q1'], atMs: null, to: join(parent, 'x') };
    const interrupt = (text: () => string): void => {
      if (text().startsWith('copying')) process.emit('SIGTERM');
    };
    await expect(restoreHistory(mirror.diskSettings, request, interrupt)).rejects.toMatchObject({
      code: 'pass.abandoned',
    });
    expect(await readdir(parent)).toEqual([]);
  });

  it('are checked for changes while they are written', async () => {
    const { service, mirror, repository } = await startMirrored(
      'Org/A',
      { 'plan.xlsx': 'x'.repeat(4_000_000) },
      { HISTORY_REPLACED: '5' },
    );
    service.write(repository, 'main', 'plan.xlsx', 'v1');
    await mirror.pass();
    const [first] = await listHistory(mirror.diskSettings, 'Org/A/main');
    const file = join(first?.folder ?? '', 'plan.xlsx');
    const request = { target: 'Org/A/main', paths: ['plan.xlsx'], atMs: first?.leftAtMs ?? 0 };
    const write = (): Promise<void> => writeFile(file, 'other');
    await expect(writeOneFile(mirror.diskSettings, request, write)).rejects.toMatchObject({
      code: 'history.damaged',
      message: expect.stringContaining('while it was copied') as string,
    });
  });

  it.each(['write', 'remove'] as const)('are found in the history after a publish (%s)', async (change) => {
    const files = { 'plan.xlsx': 'v0', 'sum.xlsx': 'sum' };
    const { service, mirror, repository } = await startMirrored('Org/A', files, { HISTORY_REPLACED: '5' });
    service.write(repository, 'main', 'plan.xlsx', 'v1');
    await mirror.pass();
    const layout = layoutOf(mirror.directory);
    const { signal } = new AbortController();
    const { state, files: wanted } = await lookUp(layout, { target: 'Org/A/main', atMs: null });
    const found = await findFiles(layout, state, wanted, signal, () => {});
    service[change](repository, 'main', 'sum.xlsx', 'other');
    await mirror.pass();
    const folder = join(await temporaryFolder(), 'x');
    await restoreInto(folder, found, signal, () => {});
    expect(await readFile(join(folder, 'sum.xlsx'), 'utf8')).toBe('sum');
  });
});
