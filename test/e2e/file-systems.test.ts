import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { canMount, startService } from '../support/mounts.ts';

/** A user who owns nothing here. */
const STRANGER = 65_533;

describe('too many open files', () => {
  it('is reported everywhere, with the limits to raise, and is not a defect', async () => {
    const { shell } = await startService();
    const explained = [];
    // With less, Node itself may not start.
    for (const limit of [24, 28, 32, 36, 40]) {
      const { exitCode, text } = await shell(
        `ulimit -n ${limit}; exec $PROGRAM sync --directory $D/${limit}`,
      );
      expect(text).not.toMatch(/defect|[Ii]nstall|permissions, read-only/);
      // How many files are open at the same time varies: with the greater limits there may be enough.
      if (exitCode === 0) continue;
      expect({ limit, exitCode, isExplained: text.includes('LimitNOFILE=') }).toEqual({
        limit,
        exitCode: 1,
        isExplained: true,
      });
      explained.push(limit);
    }
    expect(explained).not.toEqual([]);
  });

  it('is not reported as a damaged installation if the files of the status page cannot be read', async () => {
    const { shell } = await startService();
    // Other files are opened at the same time: the limit at which the page fails varies.
    for (const limit of [22, 23, 24, 25, 26, 27, 28]) {
      const { exitCode, text } = await shell(
        `ulimit -n ${limit}; exec timeout 20 $PROGRAM run --directory $D/run --http-listen 127.0.0.1:0`,
      );
      if (!text.includes('The files of the status page cannot be read')) continue;
      expect(exitCode).toBe(1);
      expect(text).toContain('LimitNOFILE=');
      expect(text).not.toMatch(/[Ii]nstall workbook-mirror again/);
      return;
    }
    throw new Error('no limit stopped the page');
  });
});

describe.runIf(canMount)('a disk that fails', () => {
  it.each([
    [
      'no inode left',
      'size=8m,nr_inodes=60',
      /at \S+\/m has no inode for another file: \d+ of its 60 inodes/,
    ],
    ['no room left', 'size=120k', /at \S+\/m is full: [\d.]+ k?B of its 123 kB are free/],
  ])('%s', async (_, options, message) => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(
      `mount -t tmpfs -o ${options} none $D/m; cd /; exec $PROGRAM sync`,
    );
    expect(text).toMatch(message);
    expect(exitCode).toBe(1);
  });

  it('names a file system that became read-only', async () => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(
      'mount -t tmpfs none $D/m; $PROGRAM sync -q && mount -o remount,ro $D/m; exec $PROGRAM sync',
    );
    expect(text).toMatch(/file system at \S+\/m is mounted read-only[^]*ReadWritePaths=[^]*Elsewhere, mount/);
    expect(exitCode).toBe(1);
  });
});

describe('a directory that the user may not write in', () => {
  it('is named with its owner and mode, and so is the user', async () => {
    const { shell } = await startService();
    const asStranger =
      process.getuid?.() === 0 ? `setpriv --reuid ${STRANGER} --regid ${STRANGER} --clear-groups` : '';
    const { exitCode, text } = await shell(`chmod 0555 $D/m; exec ${asStranger} $PROGRAM sync`);
    expect(text).toMatch(/\/m belongs to user \d+.*, group \d+.*, mode 0555; this program runs as user \d+/);
    expect(text).toContain('If a disk is not mounted there, mount it. If no other program');
    expect(exitCode).toBe(2);
  });

  it.runIf(process.getuid?.() === 0)('names owner and group to a user outside of the group', async () => {
    const { shell } = await startService();
    const { text } = await shell(
      `chown daemon:daemon $D/m; chmod 0750 $D/m; for each in plan status; do
         setpriv --reuid ${STRANGER} --regid ${STRANGER} --clear-groups $PROGRAM $each; done`,
    );
    expect(
      text.match(/\/m belongs to user \d+ \(daemon\), group \d+ \(daemon\), mode 0750; this/g),
    ).toHaveLength(2);
    expect(text.match(/Use sudo, or join the group\./g)).toHaveLength(2);
  });
});

it('a name that cannot be stored quarantines its target, is printed, and does not block other targets', async () => {
  const { folder, shell } = await startService({ [`${'l'.repeat(250)}/${'m'.repeat(250)}/a.xlsx`]: 'a' });
  // A path has room for 4,095 bytes: the directory takes so many of them that these names are too long for the rest.
  const deep = join(folder, ...Array.from({ length: 15 }, () => 'd'.repeat(240)));
  await mkdir(deep, { recursive: true });
  const { exitCode, text } = await shell(`cd $D; exec $PROGRAM sync --directory ${deep}`);
  const short = text.replaceAll(/d{240}/g, 'd');
  expect(short).toMatch(/A\/main: .* the name "[lm]{250}" \(250 bytes\), or its path/);
  for (const other of ['B', 'C']) expect(short).toContain(`${other}/main: published`);
  expect(exitCode).toBe(1);
});

it('a file that is too large for the file system is named, and does not block other targets', async () => {
  const { shell } = await startService({ 'deep/large.xlsx': 'x'.repeat(3_000_000) });
  // In blocks of 512 bytes.
  const { exitCode, text } = await shell('ulimit -f 4000; exec $PROGRAM sync');
  expect(text).toContain(
    'A/main: Failed while unpacking the archive: "large.xlsx" is larger than this file system',
  );
  for (const other of ['B', 'C']) expect(text).toContain(`${other}/main: published`);
  expect(exitCode).toBe(1);
});

describe.runIf(canMount)('a mount point below the directory', () => {
  it.each(['mirror', 'manifests', 'history', '.workbook-mirror'])(
    'at %s is refused by name, by config check as well, without any write',
    async (name) => {
      const { shell, folder } = await startService();
      const mount = `mkdir $D/m/${name} && mount -t tmpfs none $D/m/${name}`;
      for (const command of ['sync --adopt', 'config check']) {
        const { exitCode, text } = await shell(
          `[ -e $D/m/${name} ] && rmdir $D/m/${name}; ${mount}; exec $PROGRAM ${command}`,
        );
        expect(text).toContain(`${join(folder, 'm', name)} is a mount point of its own`);
        expect(exitCode).toBe(2);
      }
      expect(await readdir(join(folder, 'm'))).toEqual([name]);
    },
  );

  it('deeper is named, and all targets elsewhere are mirrored', async () => {
    const { shell } = await startService();
    const { exitCode, text } = await shell(
      'mkdir -p $D/m/.workbook-mirror $D/m/mirror/A; mount -t tmpfs none $D/m/mirror/A; exec $PROGRAM sync',
    );
    expect(text).toMatch(/has \S+\/mirror\/A mounted in it/);
    expect(text).toMatch(/A\/main: .*\/mirror\/A is a mount point of its own/);
    expect(text).toContain('B/main: published');
    expect(exitCode).toBe(1);
  });
});

it.runIf(canMount)(
  'a mirror in a lower layer of an overlay is not changed, as its folders cannot be renamed, and one in an upper layer is mirrored',
  async () => {
    const { shell, folder } = await startService();
    const overlay = `mount -t tmpfs none $D/m; mkdir -p $D/m/lower $D/m/upper $D/m/work $D/m/ov
    mount -t overlay -o redirect_dir=off,lowerdir=$D/m/lower,upperdir=$D/m/upper,workdir=$D/m/work ov $D/m/ov`;
    const fresh = await shell(`${overlay}; exec $PROGRAM sync --directory $D/m/ov/data`);
    expect(fresh).toMatchObject({ exitCode: 0 });
    const { exitCode, text } =
      await shell(`mount -t tmpfs none $D/m; $PROGRAM sync -q --directory $D/m/lower/data
    mkdir -p $D/m/upper $D/m/work $D/m/ov
    mount -t overlay -o redirect_dir=off,lowerdir=$D/m/lower,upperdir=$D/m/upper,workdir=$D/m/work ov $D/m/ov
    find $D/m/ov/data/mirror -name '*.xlsx' -delete
    exec $PROGRAM verify --repair --publish exchange --directory $D/m/ov/data`);
    expect(text).toMatch(/it lies in a lower layer of an overlay[^]*Put the setting directory on a volume/);
    expect(exitCode).toBe(1);
    expect(await readdir(join(folder, 'm'))).toEqual([]);
  },
);

it('the test of a file system leaves nothing behind, and config check reports its result', async () => {
  const { shell, folder } = await startService();
  const { exitCode, text } = await shell('$PROGRAM sync -q; exec $PROGRAM config check');
  expect(text).not.toMatch(/warning |mount point/);
  expect(text).toContain('its file system can do all that is needed');
  expect(exitCode).toBe(0);
  expect(await readdir(join(folder, 'm/.workbook-mirror/staging'))).toEqual([]);
});
