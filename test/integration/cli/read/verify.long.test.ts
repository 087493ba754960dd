import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { describeVerification } from '../../../../src/cli/read/verify.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { type Difference, examineTarget, isGone } from '../../../../src/mirror/store/verify/examine.ts';
import {
  damagedTargets,
  isClean,
  type VerifyEvent,
  type VerifyReport,
  verifyTrees,
} from '../../../../src/mirror/store/verify/verify.ts';
import { runHere } from '../../../support/in-process.ts';
import { leaveJournal } from '../../../support/journals.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { rot } from '../../../support/published.ts';
import { stampsOf } from '../../../support/stamps.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const PLAN = 'git.example.com/org/plan.git/main';
const ALL = ['Accounting/main', 'Texts/main', PLAN];

async function mirrored(settings: HarnessSettings = {}) {
  const { service, mirror } = await startPair({}, settings);
  service.addRepository('git.example.com/org/plan.git', {
    'a.xlsx': 'a of plan',
    'deep/er/b.xlsx': 'b of plan',
    'deep/c.txt': 'c of plan',
  });
  service.addRepository('Accounting', { 'd.xlsx': 'd' });
  service.addRepository('Texts', { 't.xlsx': 'r' });
  await mirror.pass();
  return { service, mirror, tree: join(mirror.directory, 'mirror', PLAN) };
}

/** Verifies a mirror. @param only the only target */
function verified(
  directory: string,
  { only, ...options }: Partial<Parameters<typeof verifyTrees>[1]> & { readonly only?: string } = {},
) {
  const { signal } = new AbortController();
  const chosen = only === undefined ? null : new Set([only]);
  return verifyTrees(layoutOf(directory), { chosen, expected: null, signal, onEvent: () => {}, ...options });
}

/** A verification as text. */
async function reported(...args: Parameters<typeof verified>): Promise<string> {
  return String(describeVerification(await verified(...args)));
}

/** A copy without private files of the program. */
async function backUp({ directory }: MirrorHarness): Promise<string> {
  const backup = join(await temporaryFolder(), 'backup');
  const filter = (path: string): boolean => !path.endsWith('.workbook-mirror');
  await cp(directory, backup, { recursive: true, preserveTimestamps: true, filter });
  return backup;
}

async function examined(directory: string, depth: 'facts' | 'bytes'): Promise<Found> {
  const signal = new AbortController().signal;
  const { differences = [] } = (await examineTarget(layoutOf(directory), PLAN, { depth, signal })) ?? {};
  return isGone(differences) ? 'gone' : differences;
}

async function replaceWithPipe(path: string): Promise<void> {
  await rm(path);
  execFileSync('mkfifo', [path]);
}

/** Moves something below the mirror, and puts a link to it in its place. */
async function replaceWithLink(path: string, moved: string): Promise<void> {
  await rename(path, moved);
  await symlink(relative(dirname(path), moved), path);
}

async function replaceWithFile(path: string): Promise<void> {
  await rm(path, { recursive: true });
  await writeFile(path, '');
}

const NOT_A_FILE: Difference = { path: 'a.xlsx', kind: 'modified', what: ['not a file'] };
const BYTES: Difference = { path: 'deep/c.txt', kind: 'modified', what: ['bytes'] };
const NO_FOLDER: readonly Difference[] = [
  { path: 'deep', kind: 'added', entry: 'link' },
  { path: 'deep/c.txt', kind: 'missing' },
  { path: 'deep/er/b.xlsx', kind: 'missing' },
];

type Found = readonly Difference[] | 'gone';

/** Damages of a tree, each with the findings of its facts and, if there are more, of its bytes. */
const DAMAGES: [string, (tree: string) => Promise<unknown>, Found, Found?][] = [
  ['bytes, with size and mtime put back', (tree) => rot(join(tree, 'deep/c.txt')), [], [BYTES]],
  [
    'a link to the same bytes in place of a file',
    (tree) => replaceWithLink(join(tree, 'a.xlsx'), join(tree, '../../moved')),
    [NOT_A_FILE],
  ],
  [
    'a link to the same folder in place of a folder',
    (tree) => replaceWithLink(join(tree, 'deep'), join(tree, '../../moved')),
    NO_FOLDER,
  ],
  ['a pipe in place of a file', (tree) => replaceWithPipe(join(tree, 'a.xlsx')), [NOT_A_FILE]],
  ['no tree', (tree) => rm(tree, { recursive: true }), 'gone'],
  ['a file in place of the tree', replaceWithFile, 'gone'],
  ['a link in place of the tree', (tree) => replaceWithLink(tree, join(tree, '../moved')), 'gone'],
  [
    'a link on the way to the tree',
    (tree) => replaceWithLink(join(tree, '../../..'), join(tree, '../../../../moved')),
    'gone',
  ],
];

describe('examining a published tree', () => {
  it.each(DAMAGES)('finds: %s', async (_name, damage, facts, bytes = facts) => {
    const { mirror, tree } = await mirrored();
    expect(await examined(mirror.directory, 'bytes')).toStrictEqual([]);
    await damage(tree);
    const before = await stampsOf(join(mirror.directory, 'mirror'));
    expect(await examined(mirror.directory, 'facts')).toStrictEqual(facts);
    expect(await examined(mirror.directory, 'bytes')).toStrictEqual(bytes);
    const report = await verified(mirror.directory);
    expect(isClean(report)).toBe(false);
    expect(damagedTargets(report)).toStrictEqual([PLAN]);
    expect(await stampsOf(join(mirror.directory, 'mirror'))).toStrictEqual(before);
  });

  it('reports what is too deep to check, and the rest as well', async () => {
    const { mirror, tree } = await mirrored();
    const name = 'x'.repeat(250);
    spawnSync('sh', ['-c', `for i in $(seq 20); do mkdir ${name} && cd ${name}; done`], { cwd: tree });
    onTestFinished(() => void spawnSync('rm', ['-rf', tree]));
    await rm(join(tree, 'a.xlsx'));
    const differences = await examined(mirror.directory, 'bytes');
    expect(differences).toMatchObject([
      { path: 'a.xlsx', kind: 'missing' },
      { kind: 'unreadable', problem: 'ENAMETOOLONG: name too long, lstat' },
    ]);
  });

  it.skipIf(process.getuid?.() === 0)('reports unreadable parts, and the rest as well', async () => {
    const { mirror, tree } = await mirrored();
    await chmod(join(tree, 'a.xlsx'), 0);
    await chmod(join(tree, 'deep/er'), 0);
    onTestFinished(() => chmod(join(tree, 'deep/er'), 0o755));
    expect(await examined(mirror.directory, 'bytes')).toStrictEqual([
      { path: 'a.xlsx', kind: 'unreadable', problem: 'EACCES: permission denied, open' },
      { path: 'deep/er', kind: 'unreadable', problem: 'EACCES: permission denied, scandir' },
    ]);
  });

  it('ends when it is aborted', async () => {
    const { mirror } = await mirrored();
    const abort = new AbortController();
    const reason = new Error('enough');
    const work = examineTarget(layoutOf(mirror.directory), PLAN, {
      depth: 'bytes',
      signal: abort.signal,
      onBytes: () => abort.abort(reason),
    });
    await expect(work).rejects.toBe(reason);
  });
});

describe('verify', () => {
  it('finds an untouched mirror clean, writes nothing, and reads every byte', async () => {
    const { mirror } = await mirrored();
    const before = await stampsOf(mirror.directory);
    const report = await verified(mirror.directory);
    expect(await stampsOf(mirror.directory)).toStrictEqual(before);
    expect(isClean(report)).toBe(true);
    expect(report.targets.map((target) => target.path)).toStrictEqual(ALL);
    expect(report.readBytes).toBe(29);
    expect(String(describeVerification(report))).toMatch(
      /^3 targets, 5 files, 29 B, verified in .*: all as published\.$/,
    );
  });

  it('verifies a read-only restored backup without private files of the program', async () => {
    const { mirror } = await mirrored();
    const backup = await backUp(mirror);
    await chmod(backup, 0o555);
    // Only root could remove it.
    onTestFinished(() => chmod(backup, 0o755));
    expect(isClean(await verified(backup))).toBe(true);
    const abort = new AbortController();
    const onEvent = (event: VerifyEvent): void => {
      if (event.kind === 'examined') abort.abort();
    };
    expect(await verified(backup, { signal: abort.signal, onEvent })).toMatchObject({ isComplete: false });
    const names = ['history', 'inventory.json', 'manifests', 'mirror'];
    expect((await readdir(backup)).sort()).toStrictEqual(names);
  });

  it('reports files outside all manifests, and unreadable manifests', async () => {
    const { mirror } = await mirrored();
    const root = join(mirror.directory, 'mirror');
    await writeFile(join(root, 'stray.txt'), '');
    await symlink('/', join(root, 'git.example.com/org/link'));
    await cp(join(root, 'Texts'), join(root, 'Texts copy'), { recursive: true });
    await cp(join(root, PLAN), join(root, 'git.example.com/org/plan.git/side'), { recursive: true });
    await writeFile(join(mirror.directory, 'manifests/Accounting/main.json'), '{}');
    const report = await verified(mirror.directory);
    expect(report.strays).toStrictEqual([
      { path: 'Texts copy', entry: 'folder' },
      { path: 'git.example.com/org/link', entry: 'link' },
      { path: 'git.example.com/org/plan.git/side', entry: 'folder' },
      { path: 'stray.txt', entry: 'file' },
    ]);
    expect(report.unreadableManifests.map((each) => each.path)).toStrictEqual(['Accounting/main']);
    expect(damagedTargets(report)).toStrictEqual(['Accounting/main']);
    expect(isClean(report)).toBe(false);
    const text = String(describeVerification(report));
    expect(text).toContain('  mirror/git.example.com/org/link (link)\n');
    expect(text).toContain(
      '  manifests/Accounting/main.json: its field "format" is not what a manifest has there\n',
    );
    expect(text).toContain('1 manifest that cannot be read, 4 entries in no manifest.');
  });

  it('fails for a folder without a mirror, and refuses a missing one', async () => {
    const directory = await temporaryFolder();
    expect(isClean(await verified(directory))).toBe(false);
    expect(await reported(directory)).toContain(
      `Nothing is mirrored in ${directory}: no manifest is there.\nName the folder`,
    );
    expect(isClean(await verified(directory, { expected: 0 }))).toBe(true);
    expect(await reported(directory, { expected: 3 })).toContain('no manifest is there, 3 expected.');
    const missing = await runHere(['verify', '--directory', join(directory, 'none')]);
    expect(missing.exitCode).toBe(2);
    expect(missing.stderr).toContain('nothing was mirrored there yet');
  });

  it('compares the number of all targets with the expected one', async () => {
    const { mirror } = await mirrored();
    expect(isClean(await verified(mirror.directory, { expected: 3 }))).toBe(true);
    expect(isClean(await verified(mirror.directory, { expected: 3, only: PLAN }))).toBe(true);
    expect(isClean(await verified(mirror.directory, { expected: 4 }))).toBe(false);
    expect(await reported(mirror.directory, { expected: 4 })).toMatch(/: 3 targets in all, 4 expected\.$/);
  });

  it('finds a target that is lost with its manifest, and in a backup, too', async () => {
    const { mirror } = await mirrored();
    await rm(join(mirror.directory, `manifests/${PLAN}.json`));
    // Its next pull replaces the tree.
    expect(await verified(mirror.directory)).toMatchObject({ lost: [{ path: PLAN }], strays: [] });
    await rm(join(mirror.directory, 'mirror/git.example.com'), { recursive: true });
    const backup = await backUp(mirror);
    for (const directory of [mirror.directory, backup]) {
      const report = await verified(directory);
      expect(isClean(report)).toBe(false);
      expect(report.lost).toMatchObject([{ path: PLAN, branch: 'main' }]);
      expect(damagedTargets(report)).toStrictEqual([PLAN]);
      expect(String(describeVerification(report))).toContain(`manifest:\n  ${PLAN}\n\n2 targets, `);
    }
    expect((await verified(backup, { only: PLAN })).lost).toHaveLength(1);
    expect(isClean(await verified(backup, { only: 'Texts/main' }))).toBe(true);
  });

  it('reports a damaged or missing inventory', async () => {
    const { mirror } = await mirrored();
    const file = join(mirror.directory, 'inventory.json');
    await writeFile(file, (await readFile(file, 'utf8')).replace('Texts/main', '../Texts'));
    const report = await verified(mirror.directory);
    expect(isClean(report)).toBe(false);
    expect(String(describeVerification(report))).toContain(
      'inventory.json cannot be used, so lost targets cannot be detected: it is not a list of targets as this program writes it.',
    );
    await rm(file);
    const without = await verified(mirror.directory);
    expect(isClean(without)).toBe(true);
    expect(String(describeVerification(without))).toContain('all as published.\nWithout inventory.json,');
  });

  it('does not call a tree a stray during its first publish', async () => {
    const { mirror } = await mirrored();
    const stage = join(mirror.directory, '.workbook-mirror/staging/under-way');
    for (const folder of [stage, join(mirror.directory, 'mirror/New/main')])
      await mkdir(folder, { recursive: true });
    const strays = async () => (await verified(mirror.directory)).strays.map(({ path }) => path);
    expect(await strays()).toStrictEqual(['New']);
    await leaveJournal(mirror.directory, stage, ['New/main'], []);
    expect(await strays()).toStrictEqual([]);
  });

  it('reports what a crash left half published, after a moment of patience', async () => {
    const { mirror, tree } = await mirrored();
    const stage = join(mirror.directory, '.workbook-mirror/staging/left');
    await mkdir(stage);
    await leaveJournal(mirror.directory, stage, [PLAN], []);
    await rm(join(tree, 'a.xlsx'));
    const report = await verified(mirror.directory);
    expect(damagedTargets(report)).toStrictEqual([PLAN]);
  });
});

describe('verify next to a daemon', () => {
  it.each(['auto', 'exchange', 'rename'])('raises no false alarm (publish %s)', async (mode) => {
    const { service, mirror } = await mirrored({ PUBLISH: mode });
    const plan = service.named();
    for (let i = 0; i < 20; i += 1) service.write(plan, 'main', `many/${i}.xlsx`, `${i}`.repeat(2000));
    await mirror.pass();
    const publish = async (round: number): Promise<void> => {
      for (let i = 0; i < (round % 3) * 5 + 1; i += 1)
        service.write(plan, 'main', `many/${(round * 7 + i) % 20}.xlsx`, `round ${round} `.repeat(500));
      if (round % 4 === 0) service.write(plan, 'main', `new/${round}/x.xlsx`, 'x');
      if (round % 4 === 2) service.remove(plan, 'main', `new/${round - 2}/x.xlsx`);
      if (round % 5 === 1) service.write(plan, `branch ${round}`, 'y.xlsx', 'y');
      if (round % 5 === 3) service.addRepository(`Late/${round}`, { 'z.xlsx': 'z' });
      if (round % 4 === 3) service.renameRepository(plan, `git.example.com/moved/plan-${round}.git`);
      await mirror.pass();
    };
    const over = new AbortController();
    const reports: VerifyReport[] = [];
    const publishing = (async () => {
      for (let round = 0; (round < 10 || reports.length < 6) && !over.signal.aborted; round += 1)
        await publish(round);
    })().finally(() => over.abort());
    while (!over.signal.aborted && reports.every(isClean)) reports.push(await verified(mirror.directory));
    over.abort();
    await publishing;
    reports.push(await verified(mirror.directory));
    expect(
      reports.filter((report) => !isClean(report)).map((report) => String(describeVerification(report))),
    ).toStrictEqual([]);
    expect(reports.length).toBeGreaterThan(5);
  });

  it.each([
    ['examines a target again whose publish removed an emptied folder, and ended, once the tree was read', 0],
    ['also examines a tree again that takes a minute to read', 60_000],
  ])('%s', async (_title, readMs) => {
    const { mirror, tree } = await mirrored();
    const stage = join(mirror.directory, '.workbook-mirror/staging/under-way');
    await leaveJournal(mirror.directory, stage, [PLAN], []);
    await mkdir(join(tree, 'emptied'));
    const onEvent = ({ kind }: VerifyEvent): void => {
      if (kind !== 'read') return;
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + readMs);
      for (const folder of [join(tree, 'emptied'), stage]) rmSync(folder, { recursive: true, force: true });
    };
    expect(isClean(await verified(mirror.directory, { only: PLAN, onEvent }))).toBe(true);
  });
});
