import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { openMirrorStore } from '../../../../src/app/open-mirror.ts';
import { restoreHistory } from '../../../../src/cli/history/restore.ts';
import { openStateOf } from '../../../../src/app/open-reader.ts';
import { verifyTrees } from '../../../../src/mirror/store/verify/verify.ts';
import { keepDirectoryId } from '../../../../src/mirror/store/directory.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import type { Manifest, ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { bindNativeCalls } from '../../../../src/lib/native/file-calls.ts';
import { writeApproval } from '../../../../src/mirror/store/documents.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { acquireLease } from '../../../../src/mirror/store/leases.ts';
import { formatManifest } from '../../../../src/mirror/store/manifest-text.ts';
import { manifestWith, repository } from '../../../support/builders.ts';
import { directorySettings } from '../../../support/settings.ts';
import { runTaskHere } from '../../../support/tasks.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** SHA-256 of `evil`. */
const EVIL = 'b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73';
const LEFT_AT = '20260101T000000.000Z';
const TARGET = 'Accounting/main';

type World = Awaited<ReturnType<typeof makeWorld>>;

/** Makes a folder with the directory of a mirror, and a file next to it that must not change. */
async function makeWorld() {
  const root = await temporaryFolder();
  const directory = join(root, 'deep/mirrored');
  await mkdir(join(root, 'outside'));
  await writeFile(join(root, 'outside/canary'), 'untouched');
  await mkdir(directory, { recursive: true });
  return { root, directory, settings: directorySettings(directory) };
}

/** Everything below a folder except the mirror's directory: kinds and contents. */
async function beside({ root, directory }: World): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of await readdir(root, { recursive: true })) {
    const path = join(root, name);
    if (path.startsWith(`${directory}/`)) continue;
    const stats = await lstat(path);
    const content = stats.isFile() ? await readFile(path, 'latin1') : '';
    found[name] =
      `${stats.mode} ${stats.ino} ${stats.nlink > 1 && stats.isFile() ? 'linked' : ''} ${content}`;
  }
  return found;
}

/** Every file below a folder has permission bits alone, and is no link. */
async function expectPlain(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    const { mode } = await lstat(join(entry.parentPath, entry.name));
    expect(entry.isSymbolicLink()).toBe(false);
    expect(mode & 0o7000).toBe(0);
  }
}

/** Runs an action that may fail, but only with an error of the program. */
async function attempted(work: Promise<unknown>): Promise<void> {
  await work.catch(onlyRefusal);
}

function onlyRefusal(error: unknown): undefined {
  if (!(error instanceof MirrorError) || error.code === 'internal.defect') throw error;
  return undefined;
}

/** Runs work while there is a link at a place. */
async function linkOver(to: string, place: string, work: () => Promise<void>): Promise<void> {
  await rm(place, { force: true });
  await symlink(to, place);
  await work();
}

const hostilePath = fc.oneof(
  fc.constantFrom(
    '../../outside/x',
    '../../../../outside/canary',
    '../../../../../outside/x',
    '../../../../../../outside/canary',
    '/tmp/workbook-mirror-hostile',
    'a/../../../../../outside/x',
    './x',
    'a//b',
    'a/b/',
    '',
    '.',
    '..',
    'x\0y',
    'x\ny',
    '\\..\\x',
    'C:/x',
  ),
  fc
    .array(fc.constantFrom('..', '.', '', 'outside', 'canary', 'a', 'mirror', 'history'), { maxLength: 9 })
    .map((segments) => segments.join('/')),
  fc.constantFrom('x', 'a/b', 'a', 'evil'),
);
const hostileMode = fc.constantFrom('0644', '4755', '2755', '1777', '7777', '0777', '0000', '644', 'rwx');

function targetManifest(files: readonly ManifestFile[]): Manifest {
  return manifestWith({ repository: repository({ id: 'id-1' }), files });
}

/** A manifest's text that this program never writes. */
const hostileManifest = fc
  .array(fc.record({ path: hostilePath, mode: hostileMode }), { minLength: 1, maxLength: 4 })
  .map((entries) => {
    const files = entries.map(({ path }): ManifestFile => ({
      path,
      sizeBytes: 4,
      sha256: EVIL,
      mode: 0o644,
      mtimeMs: 1000,
    }));
    let next = 0;
    return [...formatManifest(targetManifest(files))]
      .join('')
      .replaceAll('"mode": "0644"', () => `"mode": "${entries[next++]?.mode ?? '0644'}"`);
  });

async function put(file: string, text: string): Promise<void> {
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, text);
}

/** A path of a journal; this program would never write most of them. */
const journalPath = fc.oneof(
  hostilePath,
  fc.constantFrom(TARGET, `history/${TARGET}/${LEFT_AT}`, `mirror/${TARGET}`, `manifests/${TARGET}.json`),
  hostilePath.map((path) => `history/${path}/${LEFT_AT}`),
  hostilePath.map((path) => `mirror/${path}`),
);

/** Moves of a journal. The inode is put in later, as if the first one had been made. */
const hostileMoves = fc.array(
  fc.record({
    from: fc.oneof(journalPath, fc.constantFrom('stage/tree', 'stage/tree/x', 'stage/manifest.json')),
    to: fc.oneof(journalPath, fc.constantFrom('stage/tree', 'stage/removed/0')),
    swaps: fc.option(fc.constant(true), { nil: undefined }),
  }),
  { minLength: 1, maxLength: 4 },
);

/** The entry in a stage: its own tree, or a link to one elsewhere. */
const stagedTree = fc.constantFrom('folder', 'link', 'none');

describe('a directory with foreign writes', () => {
  it('has no interrupted publish of any form that makes the next start write outside of it', async () => {
    await fc.assert(
      fc.asyncProperty(hostileMoves, journalPath, stagedTree, async (moves, target, staged) => {
        const world = await makeWorld();
        const { directory, root, settings } = world;
        await put(join(directory, 'mirror', TARGET, 'evil'), 'evil');
        const manifest = [...formatManifest(targetManifest([]))].join('');
        await put(join(directory, 'manifests', `${TARGET}.json`), manifest);
        const { ino } = await lstat(join(directory, 'mirror', TARGET));
        const stage = join(directory, '.workbook-mirror/staging', randomUUID());
        const made = { from: 'mirror/gone', to: `mirror/${TARGET}` };
        const listed = [made, ...moves].map((move) => Object.assign({ inode: ino }, move));
        await put(join(stage, 'journal.json'), JSON.stringify({ targets: [target], moves: listed }));
        await put(join(stage, 'manifest.json'), manifest);
        if (staged === 'folder') await put(join(stage, 'tree/x'), 'evil');
        if (staged === 'link') await symlink(join(root, 'outside'), join(stage, 'tree'));
        const before = await beside(world);
        const store = await openMirrorStore(settings).catch(onlyRefusal);
        await store?.lock.release();
        expect(await beside(world)).toStrictEqual(before);
      }),
      { numRuns: 150 },
    );
  });

  it('has no link in place of a file that the program follows', async () => {
    for (const name of ['lock', 'publish.lock', 'CACHEDIR.TAG', 'state.db', 'state.db-wal', 'directory-id']) {
      const world = await makeWorld();
      const { directory, root, settings } = world;
      const before = await beside(world);
      await mkdir(join(directory, '.workbook-mirror'));
      for (const at of ['canary', 'not-there-yet'])
        await linkOver(join(root, 'outside', at), join(directory, '.workbook-mirror', name), async () => {
          const store = await openMirrorStore(settings).catch(onlyRefusal);
          if (store !== undefined) await keepDirectoryId(store).catch(onlyRefusal);
          const state = store === undefined ? undefined : await openStateOf(settings, store, false, () => {});
          await state?.close();
          await store?.lock.release();
          expect(await beside(world)).toStrictEqual(before);
        });
    }
  });

  it('has no link in place of a folder that the program follows', async () => {
    for (const name of ['staging', 'trash', 'leases', 'approvals', '../mirror', '../history', '.']) {
      const world = await makeWorld();
      const { directory, root, settings } = world;
      const before = await beside(world);
      await mkdir(join(directory, '.workbook-mirror/..'), { recursive: true });
      if (name !== '.') await mkdir(join(directory, '.workbook-mirror'));
      await symlink(join(root, 'outside'), join(directory, '.workbook-mirror', name));
      const store = await openMirrorStore(settings).catch(onlyRefusal);
      await store?.lock.release();
      const approval = {
        target: { repositoryId: 'id-1', branch: 'main' },
        subject: 'files',
        digest: 'd',
      } as const;
      await attempted(writeApproval(layoutOf(directory), approval));
      const request = { holder: 'h', durationMs: 1000, signal: AbortSignal.timeout(50_000) };
      await attempted(acquireLease(layoutOf(directory), bindNativeCalls(), request, Date.now));
      const signal = AbortSignal.timeout(50_000);
      const options = { chosen: null, expected: null, signal, onEvent: () => {} };
      await attempted(verifyTrees(layoutOf(directory), options));
      expect(await beside(world)).toStrictEqual(before);
    }
  });

  it('has no manifest of any form that makes a command write outside its target', async () => {
    await fc.assert(
      fc.asyncProperty(hostileManifest, hostileManifest, async (kept, published) => {
        const world = await makeWorld();
        const { directory, root, settings } = world;
        const tree = join(directory, 'history', TARGET, LEFT_AT);
        await put(join(tree, 'evil'), 'evil');
        await put(`${tree}.json`, kept);
        await put(join(directory, 'mirror', TARGET, 'evil'), 'evil');
        await put(join(directory, 'manifests', `${TARGET}.json`), published);
        const before = await beside(world);

        const to = join(root, 'to');
        await attempted(restoreHistory(settings, { target: TARGET, atMs: null, to }));
        await expectPlain(to);
        await rm(to, { recursive: true, force: true });
        await attempted(runTaskHere('repair', settings, {}));
        await rm(join(directory, 'manifests', `${TARGET}.json`), { force: true });
        await rm(join(directory, 'mirror'), { recursive: true });
        await attempted(restoreHistory(settings, { target: TARGET, atMs: null, to: null }));
        await expectPlain(join(directory, 'mirror'));
        expect(await beside(world)).toStrictEqual(before);
      }),
      { numRuns: 60 },
    );
  });
});
