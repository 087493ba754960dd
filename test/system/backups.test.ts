import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { startFake } from '../support/started-fake.ts';
import { MirrorHarness, startMirrored } from '../support/mirror-harness.ts';
import { hasProgram, run as runProgram } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { MAIN } from '../support/built.ts';

const chapter = await readFile(join(import.meta.dirname, '../../src/manual/backups.md'), 'utf8');
const execute = promisify(execFile);

const canMountBtrfs = process.getuid?.() === 0 && readFileSync('/proc/filesystems', 'utf8').includes('btrfs');

const missing = new Set(['restic', 'borg', 'rsync', 'mkfs.btrfs'].filter((program) => !hasProgram(program)));

/** A title that says which program is missing, if one is. */
function titleOf(title: string, program: string): string {
  return missing.has(program) ? `${title} (skipped: ${program} is not on this machine)` : title;
}

/** The commands of the chapter on backups, one a line; those that run a program under a lease. */
function recipesOf(program: string): string[] {
  const [, block = ''] = /```sh\n([\s\S]*?)```/.exec(chapter) ?? [];
  const lines = block
    .replaceAll(/\\\n\s*/g, '')
    .replaceAll(/&&\n\s*/g, '&& ')
    .split('\n');
  return lines.filter((line) => line.includes(` -- ${program} `));
}

/**
 * A mirror with constant changes, and a place for its backups.
 * @param temporary the folder for the mirror's directory, if not the usual one
 */
async function startBusyMirror(temporary = tmpdir()) {
  const service = await startFake();
  const names = Array.from({ length: 30 }, (_, file) => `d${file % 3}/f${file}.xlsx`);
  for (let index = 0; index < 12; index += 1) {
    const files = Object.fromEntries(names.map((name) => [name, `0 ${index} ${name}`]));
    service.addRepository(`Repository ${index}`, files);
  }
  vi.stubEnv('TMPDIR', temporary);
  const mirror = await MirrorHarness.open(service);
  vi.unstubAllEnvs();
  onTestFinished(() => mirror.close());
  await mirror.pass();

  const folder = await temporaryFolder();
  for (const name of ['bin', 'backup']) await mkdir(join(folder, name));
  const program = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`;
  await writeFile(join(folder, 'bin/workbook-mirror'), program, { mode: 0o755 });
  const env = {
    ...process.env,
    PATH: `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`,
    WORKBOOK_MIRROR_DIRECTORY: mirror.directory,
    RESTIC_PASSWORD: 'a password of the tests',
    RESTIC_CACHE_DIR: join(folder, 'restic-cache'),
    BORG_BASE_DIR: join(folder, 'borg-base'),
    BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK: 'yes',
  };

  const work = { changes: 0, isOver: false };
  /** Changes some files of every target and makes a pass, again and again. */
  const busy = (async () => {
    for (; !work.isOver; work.changes += 1) {
      for (const [index, repository] of service.repositories.entries())
        for (const name of names.slice(0, (index % 3) * 5 + 1))
          service.write(repository, 'main', name, `${work.changes + 1} ${index}`);
      await mirror.pass();
    }
  })();
  onTestFinished(async () => {
    work.isOver = true;
    await busy;
  });

  const moved = (text: string): string =>
    text
      .replaceAll('/srv/backup', join(folder, 'backup'))
      .replaceAll('/tmp/restored', join(folder, 'restored'))
      .replaceAll('/var/lib/workbook-mirror', mirror.directory);
  /** Expects a restored directory to be a mirror without differences. */
  const expectWhole = async (directory: string): Promise<void> => {
    const { exitCode, stdout } = await runProgram(['verify', '--directory', directory]);
    expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 });
    expect(await readdir(join(directory, 'mirror'))).toHaveLength(12);
  };
  return {
    mirror,
    work,
    moved,
    expectWhole,
    /** Runs commands of the manual, with their places moved below a folder of the test. */
    run: (command: string) => execute('sh', ['-e', '-c', moved(command)], { env, cwd: folder }),
    /** As `expectWhole`; the private files of the program, leases included, must not be in a backup. */
    expectRestored: async (directory: string): Promise<void> => {
      await expectWhole(directory);
      const found = await readdir(directory, { recursive: true });
      expect(found.filter((name) => name.startsWith('.workbook-mirror/'))).toEqual(
        found.filter((name) => name === '.workbook-mirror/CACHEDIR.TAG'),
      );
    },
  };
}

/** Repetitions of each backup: faults are rare. */
const TIMES = 3;

describe('a backup that is taken as the manual says, during heavy publishing, restores to a mirror that verify passes', () => {
  it.skipIf(missing.has('restic'))(titleOf('with restic', 'restic'), async () => {
    const busy = await startBusyMirror();
    const [recipe = ''] = recipesOf('restic');
    await busy.run('restic -q -r /srv/backup/restic init');
    for (let time = 0; time < TIMES; time += 1) {
      const before = busy.work.changes;
      await busy.run(recipe);
      const restored = `/tmp/restored/${time}`;
      await busy.run(`restic -q -r /srv/backup/restic restore latest --target ${restored}`);
      await busy.expectRestored(busy.moved(restored) + busy.mirror.directory);
      expect(busy.work.changes).toBeGreaterThan(before);
    }
  });

  it.skipIf(missing.has('borg'))(titleOf('with borg', 'borg'), async () => {
    const busy = await startBusyMirror();
    const [recipe = ''] = recipesOf('borg');
    await busy.run('borg init -e none /srv/backup/borg');
    for (let time = 0; time < TIMES; time += 1) {
      await busy.run(recipe.replace('{now}', String(time)));
      const restored = `/tmp/restored/${time}`;
      await busy.run(`mkdir -p ${restored}; cd ${restored}; borg extract /srv/backup/borg::mirror-${time}`);
      await busy.expectRestored(busy.moved(restored) + busy.mirror.directory);
    }
  });

  it.skipIf(missing.has('rsync'))(titleOf('with rsync', 'rsync'), async () => {
    const busy = await startBusyMirror();
    const [copy = '', days = ''] = recipesOf('rsync');
    for (let time = 0; time < TIMES; time += 1) {
      await busy.run(copy);
      await busy.expectRestored(busy.moved('/srv/backup/copy'));
    }
    await busy.run('mkdir /srv/backup/days');
    for (let time = 0; time < TIMES; time += 1) {
      await busy.run(days.replaceAll('$(date +%F)', String(time)));
      await busy.expectRestored(busy.moved('/srv/backup/days/latest/'));
    }
    for (let time = 0; time < TIMES; time += 1)
      await busy.expectRestored(busy.moved(`/srv/backup/days/${time}`));
  });

  it.skipIf(missing.has('mkfs.btrfs') || !canMountBtrfs)(
    titleOf('with snapshots of btrfs', 'mkfs.btrfs'),
    async () => {
      const folder = await temporaryFolder();
      const volume = join(folder, 'volume');
      await execute('sh', [
        '-ec',
        `truncate -s 512M ${folder}/image; mkfs.btrfs -q ${folder}/image; mkdir ${volume}; mount -o loop ${folder}/image ${volume}`,
      ]);
      onTestFinished(async () => {
        await execute('umount', [volume]);
      });
      const busy = await startBusyMirror(volume);
      const [recipe = ''] = recipesOf('btrfs');
      const name = basename(busy.mirror.directory);
      for (let time = 0; time < TIMES; time += 1) {
        const [, snapshot = ''] = /"([^"]+)"$/.exec(recipe) ?? [];
        const place = join(volume, `snapshot-${time}`);
        await busy.run(recipe.replace(snapshot, place).replace('/var/lib/workbook-mirror', volume));
        await busy.expectWhole(join(place, name));
      }
    },
  );
});

it.skipIf(missing.has('restic'))(
  titleOf('a backup of a mirror with its history reads one file where one of 10,000 changed', 'restic'),
  async () => {
    const names = Array.from({ length: 10_000 }, (_, index) => `d${index % 100}/f${index}.xlsx`);
    const files = Object.fromEntries(names.map((name) => [name, name]));
    const settings = { HISTORY_REPLACED: '7d' };
    const { service, mirror, repository } = await startMirrored('Accounting', files, settings, {
      compression: 'stored',
    });
    const folder = await temporaryFolder();
    const own = { RESTIC_PASSWORD: 'a password of the tests', RESTIC_CACHE_DIR: folder };
    const restic = (...args: string[]): Promise<{ stdout: string }> =>
      execute('restic', ['-r', join(folder, 'backup'), ...args], {
        env: { ...process.env, ...own },
        maxBuffer: 1 << 28,
      });
    const backUp = async (): Promise<{ readonly data: string; readonly filesRead: number }> => {
      const args = ['--json', mirror.directory, '--exclude', '.workbook-mirror'];
      const { stdout } = await restic('backup', ...args);
      const summary = stdout.trimEnd().split('\n').at(-1) ?? '';
      const { files_new: isNew, files_changed: isChanged } = JSON.parse(summary) as Record<string, number>;
      return { data: summary, filesRead: (isNew ?? 0) + (isChanged ?? 0) };
    };
    await restic('init');
    expect((await backUp()).filesRead).toBeGreaterThan(10_000);
    service.write(repository, 'main', 'd7/f107.xlsx', 'another text');
    await mirror.pass();
    await mirror.expectExact();
    // The file and the manifest, and those of the former state in the history.
    const { data, filesRead } = await backUp();
    expect(filesRead, data).toBeLessThanOrEqual(4);
  },
);
