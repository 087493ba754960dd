import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { canMount, startService } from '../support/mounts.ts';

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

describe.runIf(canMount)('a mirror in a lower layer of an overlay', () => {
  it('is refused, as its folders cannot be renamed, and one in an upper layer is mirrored', async () => {
    const { shell, folder } = await startService();
    const overlay = `mount -t tmpfs none $D/m; mkdir -p $D/m/lower $D/m/upper $D/m/work $D/m/ov
      mount -t overlay -o redirect_dir=off,lowerdir=$D/m/lower,upperdir=$D/m/upper,workdir=$D/m/work ov $D/m/ov`;
    const fresh = await shell(`${overlay}; exec $PROGRAM sync --directory $D/m/ov/data`);
    expect(fresh).toMatchObject({ exitCode: 0 });
    const { exitCode, text } =
      await shell(`mount -t tmpfs none $D/m; $PROGRAM sync -q --directory $D/m/lower/data
      mkdir -p $D/m/upper $D/m/work $D/m/ov
      mount -t overlay -o redirect_dir=off,lowerdir=$D/m/lower,upperdir=$D/m/upper,workdir=$D/m/work ov $D/m/ov
      $PROGRAM config check --directory $D/m/ov/data; exec $PROGRAM sync --directory $D/m/ov/data`);
    expect(
      text.match(/mirror\/A lies in a lower layer of it, .*\n {2}Put the setting directory on a volume/g),
    ).toHaveLength(2);
    expect(exitCode).toBe(2);
    expect(await readdir(join(folder, 'm'))).toEqual([]);
  });
});

it('the test of a file system leaves nothing behind, and config check reports its result', async () => {
  const { shell, folder } = await startService();
  const { exitCode, text } = await shell('$PROGRAM sync -q; exec $PROGRAM config check');
  expect(text).not.toMatch(/warning |mount point/);
  expect(text).toContain('its file system can do all that is needed');
  expect(exitCode).toBe(0);
  expect(await readdir(join(folder, 'm/.workbook-mirror/staging'))).toEqual([]);
});
