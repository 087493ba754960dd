import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { FakeService } from '../support/fake-service.ts';
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

/** A mirror with constant changes, and a place for its backups. */
class BusyMirror {
  private readonly folder: string;
  readonly mirror: MirrorHarness;
  private readonly service: FakeService;
  private isOver = false;
  private busy: Promise<void> = Promise.resolve();
  changes = 0;

  private constructor(folder: string, mirror: MirrorHarness, service: FakeService) {
    this.folder = folder;
    this.mirror = mirror;
    this.service = service;
  }

  /** @param temporary the folder for the mirror's directory, if not the usual one */
  static async start(temporary = tmpdir()): Promise<BusyMirror> {
    const service = await FakeService.start();
    onTestFinished(() => service.close());
    for (let index = 0; index < 12; index += 1) {
      const files = Array.from({ length: 30 }, (_, file) => [
        `d${file % 3}/f${file}.xlsx`,
        `0 ${index} ${file}`,
      ]);
      service.addRepository(`Repository ${index}`, Object.fromEntries(files) as Record<string, string>);
    }
    vi.stubEnv('TMPDIR', temporary);
    const mirror = await MirrorHarness.open(service);
    vi.unstubAllEnvs();
    onTestFinished(() => mirror.close());
    await mirror.pass();
    const busy = new BusyMirror(await temporaryFolder(), mirror, service);
    await busy.makeProgram();
    onTestFinished(() => busy.stop());
    busy.busy = busy.work();
    return busy;
  }

  /** Runs commands of the manual, with their places moved below a folder of the test. */
  async run(command: string): Promise<void> {
    const moved = this.moved(command);
    await execute('sh', ['-e', '-c', moved], { env: this.environment(), cwd: this.folder });
  }

  moved(text: string): string {
    return text
      .replaceAll('/srv/backup', join(this.folder, 'backup'))
      .replaceAll('/tmp/restored', join(this.folder, 'restored'))
      .replaceAll('/var/lib/workbook-mirror', this.mirror.directory);
  }

  /** Expects a restored directory to be a mirror without differences. */
  async expectWhole(directory: string): Promise<void> {
    const { exitCode, stdout } = await runProgram(['verify', '--directory', directory]);
    expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 });
    expect(await readdir(join(directory, 'mirror'))).toHaveLength(12);
  }

  /** As `expectWhole`; the private files of the program, leases included, must not be in a backup. */
  async expectRestored(directory: string): Promise<void> {
    await this.expectWhole(directory);
    const names = await readdir(directory, { recursive: true });
    expect(names.filter((name) => name.startsWith('.workbook-mirror/'))).toEqual(
      names.filter((name) => name === '.workbook-mirror/CACHEDIR.TAG'),
    );
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await this.busy;
  }

  /** Repeatedly changes some files of every target and makes a pass. */
  private async work(): Promise<void> {
    while (!this.isOver) {
      this.changes += 1;
      for (const [index, repository] of this.service.repositories.entries()) {
        const count = (index % 3) * 5 + 1;
        for (let file = 0; file < count; file += 1)
          this.service.write(repository, 'main', `d${file % 3}/f${file}.xlsx`, `${this.changes} ${index}`);
      }
      await this.mirror.pass();
    }
  }

  private environment(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      PATH: `${join(this.folder, 'bin')}:${process.env['PATH'] ?? ''}`,
      WORKBOOK_MIRROR_DIRECTORY: this.mirror.directory,
      RESTIC_PASSWORD: 'a password of the tests',
      RESTIC_CACHE_DIR: join(this.folder, 'restic-cache'),
      BORG_BASE_DIR: join(this.folder, 'borg-base'),
      BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK: 'yes',
    };
  }

  private async makeProgram(): Promise<void> {
    const program = join(this.folder, 'bin', 'workbook-mirror');
    await mkdir(join(this.folder, 'bin'));
    await mkdir(join(this.folder, 'backup'));
    await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
    await chmod(program, 0o755);
  }
}

/** Repetitions of each backup: faults are rare. */
const TIMES = 4;

describe('a backup that is taken as the manual says, during heavy publishing, restores to a mirror that verify passes', () => {
  it.skipIf(missing.has('restic'))(titleOf('with restic', 'restic'), async () => {
    const busy = await BusyMirror.start();
    const [recipe = ''] = recipesOf('restic');
    await busy.run('restic -q -r /srv/backup/restic init');
    for (let time = 0; time < TIMES; time += 1) {
      const before = busy.changes;
      await busy.run(recipe);
      const restored = `/tmp/restored/${time}`;
      await busy.run(`restic -q -r /srv/backup/restic restore latest --target ${restored}`);
      await busy.expectRestored(busy.moved(restored) + busy.mirror.directory);
      expect(busy.changes).toBeGreaterThan(before);
    }
  });

  it.skipIf(missing.has('borg'))(titleOf('with borg', 'borg'), async () => {
    const busy = await BusyMirror.start();
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
    const busy = await BusyMirror.start();
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
      const busy = await BusyMirror.start(volume);
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

describe('a backup of a mirror with its history', () => {
  it.skipIf(missing.has('restic'))(
    titleOf('reads one file where one of 10,000 changed', 'restic'),
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
});
