import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it } from 'vitest';

import { makeFolders } from '../../src/lib/disk/durable.ts';
import { ChangingService, expectLatest, passes, startReader } from '../support/changing-service.ts';
import { hasGluster, startVolume } from '../support/gluster.ts';
import { run, start } from '../support/program.ts';

const TITLE = hasGluster
  ? 'on two machines with a GlusterFS volume'
  : 'on two machines with a GlusterFS volume (skipped: needs root, namespaces, FUSE and glusterfs-server)';

describe.skipIf(!hasGluster)(TITLE, () => {
  it('has a folder made for both that make it at one moment', async () => {
    const [one, other] = await startVolume();
    // About one of 300 times both are told that it is there, and it is not.
    const names = Array.from({ length: 3000 }, (_, index) => `team-${String(index).padStart(4, '0')}`);
    for (let at = 0; at < names.length; at += 8) {
      const some = names.slice(at, at + 8);
      const paths = some.flatMap((name) => [join(one.folder, name), join(other.folder, name)]);
      await Promise.all(paths.map(makeFolders));
    }
    for (const { folder } of [one, other]) expect((await readdir(folder)).sort()).toEqual(names);
  });

  it('has readers on both see whole trees alone, while one publishes links', async () => {
    const [one, other] = await startVolume();
    const changing = await ChangingService.start();
    const writer = start(['run'], changing.settingsOn(one));
    await passes(writer, 1);
    const readers = [one, other].map((machine) => startReader(changing, machine));
    for (let changes = 1; changes <= 25; changes += 1) {
      changing.change();
      writer.child.kill('SIGHUP');
      await passes(writer, changes + 1);
    }
    const faults = await Promise.all(readers.map((reader) => reader.stop()));
    expect(faults.flat()).toEqual([]);
    for (const { reads } of readers) expect(reads()).toBeGreaterThan(25);
    expect(writer.stdout()).not.toMatch(/"level":"(?:warn|error)"/);
    await expectLatest(changing, one, other);
  });

  it('has them see whole trees alone, while the publisher is killed and started on the other', async () => {
    const machines = await startVolume();
    const [one, other] = machines;
    const changing = await ChangingService.start();
    expect((await run(['sync'], changing.settingsOn(one))).exitCode).toBe(0);
    const readers = machines.map((machine) => startReader(changing, machine));
    for (let kills = 0; kills < 16; kills += 1) {
      changing.change();
      const running = start(['run'], changing.settingsOn(kills % 2 === 0 ? other : one));
      await running.prints(/"event":"daemon.started"/);
      await sleep(Math.random() * 400);
      running.child.kill('SIGKILL');
      await running.ended;
    }
    const last = await run(['sync'], changing.settingsOn(other));
    expect({ ...last }).toMatchObject({ exitCode: 0 });
    const faults = await Promise.all(readers.map((reader) => reader.stop()));
    expect(faults.flat()).toEqual([]);
    await expectLatest(changing, one, other);
    expect(await readdir(join(one.folder, 'mirrored/.workbook-mirror/staging'))).toEqual([]);
  });
});
