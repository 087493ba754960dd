import { readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it } from 'vitest';

import { startFake } from '../support/started-fake.ts';
import { hasGluster, type NetworkMachine, startVolume } from '../support/gluster.ts';
import { saying } from '../support/in-process.ts';
import { run, type Running, start, type Variables, variablesOf } from '../support/program.ts';
import { textsIn } from '../support/published.ts';

const TITLE = hasGluster
  ? 'two instances with a GlusterFS volume'
  : 'two instances with a GlusterFS volume (skipped: needs root, namespaces, FUSE and glusterfs-server)';

/** The timeouts of the manual, but shorter: after which a server gives up a lost machine, and a machine a lost server. */
const SHORT = { 'server.tcp-user-timeout': '5', 'network.ping-timeout': '5' };

/** A service whose states each have their own text in all files of all repositories, and their own file name. */
async function startChanging() {
  const service = await startFake();
  for (const name of ['Accounting', 'Planning', 'Sales']) service.addRepository(name);
  let states = 0;
  const change = (): void => {
    states += 1;
    for (const repository of service.repositories) {
      for (const path of ['d0/f0.xlsx', 'd1/f1.xlsx', `only/in-${states}.xlsx`])
        service.write(repository, 'main', path, `${states} of ${repository.fullName} in ${path}`);
      service.remove(repository, 'main', `only/in-${states - 1}.xlsx`);
    }
  };
  change();
  /** The settings of an instance on a machine, as variables. */
  const settingsOn = ({ folder }: NetworkMachine, more: Variables = {}): Record<string, string> => {
    const own = { GUARD_FILES: 'off', SCHEDULE: '0 0 1 1 *', PUBLISH: 'link' };
    return variablesOf({ ...service.settingsFor(join(folder, 'mirrored')), ...own, ...more });
  };
  return { service, change, settingsOn };
}

type Changing = Awaited<ReturnType<typeof startChanging>>;

/** Waits for a number of passes of an instance. */
function passes({ prints }: Running, count: number): Promise<void> {
  return prints(new RegExp(`(?:"event":"pass\\.finished"[^]*){${count}}`));
}

/** Expects the latest state on machines, without differences from the manifests. */
async function expectLatest(changing: Changing, ...machines: NetworkMachine[]): Promise<void> {
  for (const machine of machines) {
    for (const [target, expected] of Object.entries(changing.service.expectedTrees())) {
      const root = await realpath(join(machine.folder, 'mirrored/mirror', target));
      const texts = [...expected].map(([path, bytes]) => [path, String(bytes)]);
      expect(await textsIn(root)).toEqual(Object.fromEntries(texts));
    }
    const verified = await run(['verify'], changing.settingsOn(machine));
    expect(verified, verified.stdout).toMatchObject({ exitCode: 0 });
  }
}

/** An instance on the first machine that has mirrored everything, and one on standby on the other. */
async function startPair() {
  const [one, other] = await startVolume(SHORT);
  const changing = await startChanging();
  const settings = { STANDBY: 'true' };
  const active = start(['run'], changing.settingsOn(one, settings));
  await passes(active, 1);
  const standby = start(['run'], changing.settingsOn(other, settings));
  await standby.prints(/"standby\.began"/);
  return { changing, one, other, active, standby };
}

type Pair = Awaited<ReturnType<typeof startPair>>;

/** Gives the active instance a change, and returns at a random moment of its pass. */
async function beAmidPass({ changing, active }: Pair): Promise<void> {
  changing.change();
  active.child.kill('SIGHUP');
  await sleep(Math.random() * 300);
}

async function expectTakenOver({ changing, other, standby }: Pair): Promise<void> {
  await standby.prints(/"standby\.ended"/);
  await passes(standby, 1);
  await expectLatest(changing, other);
  const status = await run(['status'], changing.settingsOn(other));
  expect({ ...status }).toMatchObject({ exitCode: 0 });
}

describe.skipIf(!hasGluster)(TITLE, () => {
  it('take over when the mount of the other one dies', async () => {
    const pair = await startPair();
    const { changing, active, one } = pair;
    await beAmidPass(pair);
    one.kill();
    changing.change();
    await expectTakenOver(pair);
    active.child.kill('SIGHUP');
    await active.prints(/"pass\.failed"/);
    await expectLatest(changing, pair.other);
    expect(active.stdout()).not.toContain('internal.defect');
    expect(active.child.exitCode).toBeNull();
  });

  it('take over when the other machine is cut off, which writes nothing more when it is back', async () => {
    const pair = await startPair();
    const { changing, active, one, other, standby } = pair;
    await beAmidPass(pair);
    one.setCable('down');
    changing.change();
    await expectTakenOver(pair);
    one.setCable('up');
    await one.answers();
    changing.change();
    active.child.kill('SIGHUP');
    expect((await active.ended).exitCode, active.stdout()).toBe(1);
    expect(active.stdout()).toContain('"code":"directory.taken"');
    standby.child.kill('SIGHUP');
    await passes(standby, 2);
    await expectLatest(changing, one, other);
    // After a restart by its supervisor, it is on standby.
    const anew = start(['run'], changing.settingsOn(one, { STANDBY: 'true' }));
    await anew.prints(/"standby\.began"/);
  });

  it('stand by while the server cannot be reached, and after', async () => {
    const { other, standby, active, changing } = await startPair();
    other.setCable('down');
    await sleep(12_000);
    other.setCable('up');
    await other.answers();
    expect(standby.child.exitCode).toBeNull();
    active.child.kill('SIGKILL');
    await standby.prints(/"standby\.ended"/);
    await passes(standby, 1);
    await expectLatest(changing, other);
  });
});

describe.skipIf(!hasGluster)(`${TITLE}: commands`, () => {
  it('verify, find what was changed on the other machine, repair it, and restore what left the mirror', async () => {
    const [one, other] = await startVolume();
    const changing = await startChanging();
    const settings = { GUARD_TARGETS: 'off', HISTORY_REPLACED: '9' };
    const [here, there] = [one, other].map((machine) => changing.settingsOn(machine, settings));
    expect((await run(['sync'], here)).exitCode).toBe(0);
    changing.change();
    expect((await run(['sync'], there)).exitCode).toBe(0);
    const file = 'mirrored/mirror/Sales/main/d0/f0.xlsx';
    const before = await readFile(join(other.folder, file));
    await writeFile(join(other.folder, file), 'an edit');
    const verified = await run(['verify'], here);
    expect({ ...verified }).toMatchObject({ exitCode: 1, stdout: saying('d0/f0.xlsx') });
    expect((await run(['verify', '--repair'], here)).exitCode).toBe(0);
    expect(await readFile(join(other.folder, file))).toEqual(before);
    await expectLatest(changing, one, other);

    const listed = await run(['history', 'list'], there);
    expect(listed.stdout).toMatch(/Accounting\/main +replaced/);
    changing.service.removeRepository(changing.service.named());
    for (let passes = 0; passes < 2; passes += 1) expect((await run(['sync'], there)).exitCode).toBe(0);
    const restored = join(one.folder, 'restored');
    const restore = await run(['history', 'restore', 'Accounting/main', '--to', restored], here);
    expect({ ...restore }).toMatchObject({ exitCode: 0 });
    expect(await readFile(join(other.folder, 'restored/d0/f0.xlsx'), 'utf8')).toContain('of Accounting');
  });

  it('publish file by file with `publish: auto`, and recommend links', async () => {
    const [one] = await startVolume();
    const changing = await startChanging();
    const settings = changing.settingsOn(one, { PUBLISH: 'auto' });
    const synced = await run(['sync'], settings);
    expect(synced.exitCode).toBe(0);
    expect(synced.stdout + synced.stderr).toContain('with publish: link they do not');
    changing.change();
    const next = await run(['sync'], settings);
    expect(next.exitCode).toBe(0);
    await expectLatest(changing, one);
    const refused = await run(['sync'], changing.settingsOn(one, { PUBLISH: 'exchange' }));
    expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('or to link')]);
    const checked = await run(['config', 'check'], settings);
    expect(checked.stdout).toContain('is on fuse.glusterfs; other machines see its locks');
  });
});
