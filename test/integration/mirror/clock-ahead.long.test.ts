import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { type MirrorCommands, startCommands } from '../../support/mirror-commands.ts';

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

/** Runs something under a clock that is ahead, by default two years. */
async function ahead<T>(work: () => Promise<T>, aheadMs = 2 * YEAR_MS): Promise<T> {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + aheadMs });
  try {
    return await work();
  } finally {
    vi.useRealTimers();
  }
}

async function started(): Promise<MirrorCommands> {
  const commands = await startCommands();
  commands.service.addRepository('Accounting', { 'a.xlsx': 'a' });
  commands.service.addRepository('Other', { 'o.xlsx': 'o' });
  return commands;
}

/** Every time in a manifest. */
async function manifestTimes({ directory }: MirrorCommands): Promise<number[]> {
  const text = await readFile(join(directory, 'manifests/Accounting/main.json'), 'utf8');
  return [...text.matchAll(/"(?:verified|compared|published)_at": "(?<time>[^"]*)"/g)].map(({ groups }) =>
    Date.parse(groups?.['time'] ?? ''),
  );
}

type Accident = readonly [string, (commands: MirrorCommands) => Promise<unknown>];

const accidents: readonly Accident[] = [
  ['the first pass', ({ command }) => ahead(() => command(['sync']))],
  [
    'a pass with a new version',
    async ({ command, service }) => {
      await command(['sync']);
      service.write(service.named(), 'main', 'a.xlsx', 'a, second version');
      await ahead(() => command(['sync']));
    },
  ],
  [
    'a pass with lost state',
    async ({ command, directory }) => {
      await ahead(() => command(['sync']));
      for (const name of await readdir(join(directory, '.workbook-mirror')))
        if (name.startsWith('state'))
          await rm(join(directory, '.workbook-mirror', name), { recursive: true });
    },
  ],
];

describe('when the clock was ahead', () => {
  it.each(accidents)('in %s, the next pass heals everything', async (_name, accident) => {
    const commands = await started();
    await accident(commands);
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    const shown = await commands.command(['status']);
    expect(shown.stdout).not.toMatch(/future|20(?:2[89]|[3-9]\d)/);
    expect(shown.exitCode).toBe(0);
    for (const { state, isStale } of Object.values(await commands.status()))
      expect({ state, isStale }).toEqual({ state: 'fresh', isStale: false });
    const nowMs = Date.now();
    expect((await manifestTimes(commands)).filter((timeMs) => timeMs > nowMs)).toEqual([]);
    // Later passes do not check the same again.
    commands.service.takeRequests();
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    expect(commands.service.takeDownloads()).toEqual([]);
  });

  it('status reports a time in the future, and nothing as verified', async () => {
    const { command } = await started();
    await ahead(() => command(['sync']));
    const { stdout, exitCode } = await command(['status']);
    expect(stdout).toMatch(/^late +in the future +in the future .*Accounting\/main$/m);
    expect(stdout).toMatch(/^Last pass: .*\(in the future\)/m);
    expect(exitCode).toBe(1);
  });

  it('a repository deleted at that time leaves the mirror as any other, and stays in the history', async () => {
    const { command, service, directory } = await started();
    await command(['sync']);
    service.removeRepository(service.named());
    const settings = { GUARD_TARGETS: 'off' };
    await ahead(() => command(['sync'], settings));
    await command(['sync'], settings);
    expect(await readdir(join(directory, 'mirror'))).toEqual(['Other']);
    expect((await command(['sync'], settings)).exitCode).toBe(0);
    // The clock of the service shows that its time is not over.
    await ahead(() => command(['sync'], { ...settings, HISTORY_RETIRED: '1d' }));
    expect(await readdir(join(directory, 'history'))).toEqual(['Accounting']);
  });

  it('a tree that left the mirror then does not count as the latest in the history', async () => {
    const { command, service, directory } = await started();
    const repository = service.named();
    const settings = { HISTORY_REPLACED: '10' };
    const replace = async (content: string): Promise<void> => {
      service.write(repository, 'main', 'a.xlsx', content);
      await command(['sync'], settings);
    };
    await command(['sync'], settings);
    await ahead(() => replace('second'));
    await replace('third');
    await replace('fourth');
    const folder = join(directory, '../restored');
    const { exitCode } = await command(['history', 'restore', 'Accounting/main', '--to', folder], settings);
    expect(exitCode).toBe(0);
    expect(await readFile(join(folder, 'a.xlsx'), 'utf8')).toBe('third');
  });

  it('by an hour, the history still has all files of the states that it keeps', async () => {
    const { command, service, directory } = await started();
    const sync = (): Promise<unknown> => command(['sync'], { HISTORY_REPLACED: '1' });
    service.write(service.named(), 'main', 'only.xlsx', 'only');
    await sync();
    service.write(service.named(), 'main', 'a.xlsx', 'second');
    await ahead(sync, HOUR_MS);
    service.write(service.named(), 'main', 'only.xlsx', 'replaced');
    await sync();
    await ahead(sync, 2 * HOUR_MS);
    const restored = await command([
      'history',
      'restore',
      'Accounting/main',
      '--to',
      `${directory}-restored`,
    ]);
    expect(restored.exitCode).toBe(0);
    expect(await readFile(`${directory}-restored/only.xlsx`, 'utf8')).toBe('only');
  });

  it('by an hour, the history still has them under the former name of a repository', async () => {
    const { command, service, directory } = await started();
    const sync = (): Promise<unknown> => command(['sync'], { HISTORY_REPLACED: '1' });
    service.write(service.named(), 'main', 'only.xlsx', 'only');
    await ahead(sync, HOUR_MS);
    service.write(service.named(), 'main', 'a.xlsx', 'second');
    await ahead(sync, HOUR_MS);
    service.renameRepository(service.named(), 'Books');
    for (const content of ['replaced', 'again']) {
      service.write(service.named('Books'), 'main', 'only.xlsx', content);
      await sync();
    }
    const to = `${directory}-restored`;
    expect((await command(['history', 'restore', 'Accounting/main', '--to', to])).exitCode).toBe(0);
    expect(await readFile(`${to}/only.xlsx`, 'utf8')).toBe('only');
  });
});
