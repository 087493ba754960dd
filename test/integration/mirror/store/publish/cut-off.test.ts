import { publishedManifest } from '../../../../../src/mirror/store/inventory.ts';
import { discardStage } from '../../../../../src/mirror/store/publish/journal.ts';
import { moveTree, publishStage, retireTree } from '../../../../../src/mirror/store/publish/publish.ts';
import { dropFile, stageFile, openStage } from '../../../../../src/mirror/store/publish/stage.ts';
import { lstat, mkdir, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import type * as Durable from '../../../../../src/lib/disk/durable.ts';
import type { Manifest, ManifestFile } from '../../../../../src/mirror/store/manifest.ts';
import { openStore } from '../../../../../src/mirror/store/directory.ts';
import type { PublishMode } from '../../../../../src/mirror/store/publish/moves.ts';
import type { MirrorStore } from '../../../../../src/mirror/store/disk.ts';
import { manifestWith } from '../../../../support/builders.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

/** Moves of the journal that are still made; the next one fails, and so the change is cut off. */
const moves = vi.hoisted(() => ({ left: Number.POSITIVE_INFINITY }));

// Before each move the folders around its destination are made.
vi.mock('../../../../../src/lib/disk/durable.ts', async (importOriginal) => {
  const actual = await importOriginal<typeof Durable>();
  return {
    ...actual,
    makeFolders: (path: string) => {
      if (!path.includes('/trees/')) moves.left -= 1;
      return moves.left < 0 ? Promise.reject(new Error('cut off')) : actual.makeFolders(path);
    },
  };
});

const TIME_MS = Date.UTC(2025, 0, 1);

/** Sorts entries by their names. */
function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}

type Files = Readonly<Record<string, string>>;

async function opened(directory: string, publish: PublishMode, replaced: boolean): Promise<MirrorStore> {
  return openStore({
    directory,
    publish,
    readerGraceMs: 60_000,
    retention: {
      retired: { kind: 'forever' },
      replaced: replaced ? { kind: 'forever' } : { kind: 'off' },
    },
    now: Date.now,
  });
}

function manifestOf(files: readonly ManifestFile[], fingerprint: string, id = 'id-1'): Manifest {
  const repository = { id, name: 'Accounting', fullName: 'Accounting', url: null, createdAt: null };
  const times = { verifiedAtMs: TIME_MS, publishedAtMs: TIME_MS };
  return manifestWith({ repository, ...times, fingerprint, archiveBytes: 1, files });
}

/** Publishes a state as a pull does: only what differs is staged. */
async function publish(store: MirrorStore, path: string, files: Files, id = 'id-1'): Promise<void> {
  const present = await publishedManifest(store.layout, path);
  const before = present?.repository.id === id ? present : null;
  const known = before?.files ?? [];
  const stage = await openStage(store, path);
  try {
    const inventory: ManifestFile[] = [];
    for (const [name, text] of Object.entries(files).toSorted(byName)) {
      const bytes = Buffer.from(text);
      const written = await stageFile(stage, name, TIME_MS, [bytes], () => {});
      const same = known.find((file) => file.path === name && file.sha256 === written.sha256);
      if (same !== undefined) await dropFile(stage, name);
      inventory.push(same ?? written);
    }
    await publishStage(store, stage, { manifest: manifestOf(inventory, JSON.stringify(files), id), before });
  } finally {
    await discardStage(store, stage);
  }
}

/** Every file of a folder with its text, and of links where they lead. */
async function allIn(folder: string): Promise<Files> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const found = entries.map(async (entry): Promise<[string, string]> => {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length + 1);
    if (entry.isSymbolicLink()) return [name, (await readlink(path)).replace(/[^/]*\/[^/]*$/, 'TREE')];
    if (entry.isDirectory()) return [name, '/'];
    const text = await readFile(path, 'utf8');
    return [name, path.endsWith('.json') ? String((JSON.parse(text) as Manifest).fingerprint) : text];
  });
  return Object.fromEntries((await Promise.all(found)).toSorted(byName));
}

/** All that a person finds in a directory, without times. */
async function stateOf(directory: string): Promise<unknown> {
  const [mirror, manifests, history] = await Promise.all(
    ['mirror', 'manifests', 'history'].map((name) => allIn(join(directory, name))),
  );
  const dated = Object.entries(history ?? {}).map(([name, text]): [string, string] => [
    name.replaceAll(/\d{8}T\d{6}\.\d{3}Z/g, 'TIME'),
    text,
  ]);
  return { mirror, manifests, history: dated.toSorted(byName) };
}

const PATH = 'Accounting/main';
const OTHER = 'Accounts/main';

async function rename(store: MirrorStore): Promise<void> {
  const manifest = await publishedManifest(store.layout, PATH);
  if (manifest !== null) await moveTree(store, PATH, OTHER, { ...manifest, fingerprint: 'renamed' });
}

const TO_TAKEN = 'rename to a path that is taken';

/** The changes of a target, each from the published state. */
const CHANGES: Readonly<Record<string, (store: MirrorStore, next: Files) => Promise<void>>> = {
  publish: (store, next) => publish(store, PATH, next),
  'publish of another repository': (store, next) => publish(store, PATH, next, 'id-2'),
  retire: (store) => retireTree(store, PATH),
  rename,
  [TO_TAKEN]: rename,
};

const names = fc.constantFrom('a', 'b', 'c/a', 'c/b', 'd/e/f', 'b/a', 'c');
const trees = fc.dictionary(names, fc.constantFrom('1', '22', '333'), { maxKeys: 5 }).map((tree): Files => {
  // A path is a file or a folder, not both.
  const isFolder = (name: string): boolean => Object.keys(tree).some((other) => other.startsWith(`${name}/`));
  return Object.fromEntries(Object.entries(tree).filter(([name]) => !isFolder(name)));
});

describe('a change that is cut off', () => {
  beforeEach(() => {
    moves.left = Number.POSITIVE_INFINITY;
  });

  const modes: readonly PublishMode[] = ['auto', 'exchange', 'rename', 'link'];
  it.each(modes.flatMap((mode) => Object.keys(CHANGES).map((change) => [mode, change] as const)))(
    'leaves the state before or after it, for a cut at any move (%s, %s)',
    async (mode, change) => {
      const cases = fc.record({
        before: trees,
        next: trees,
        keeps: fc.boolean(),
        after: fc.integer({ min: 0, max: 6 }),
        from: fc.constantFrom(...modes),
      });
      await fc.assert(
        fc.asyncProperty(cases, async ({ before, next, keeps, after, from }) => {
          const made = async (): Promise<string> => {
            const directory = await temporaryFolder();
            const first = await opened(directory, from, keeps);
            await publish(first, PATH, before);
            if (change === TO_TAKEN) await publish(first, OTHER, next, 'id-2');
            await first.lock.release();
            return directory;
          };
          const [whole, directory] = [await made(), await made()];
          const state = await stateOf(directory);
          const store = await opened(whole, mode, keeps);
          await CHANGES[change]?.(store, next);
          await store.lock.release();

          const cut = await opened(directory, mode, keeps);
          moves.left = after;
          const error = await CHANGES[change]?.(cut, next).catch((thrown: unknown) => thrown);
          moves.left = Number.POSITIVE_INFINITY;
          await cut.lock.release();
          const again = await opened(directory, mode, keeps);
          await again.lock.release();
          const found = await stateOf(directory);
          expect(await readdir(again.layout.staging)).toEqual([]);
          const expected = await stateOf(whole);
          if (error === undefined) expect(found).toEqual(expected);
          else expect([state, expected]).toContainEqual(found);
        }),
        { numRuns: 6 },
      );
    },
  );

  it('does not change files that others put there since', async () => {
    const directory = await temporaryFolder();
    const store = await opened(directory, 'rename', false);
    await publish(store, PATH, { a: '1', b: '1' });
    moves.left = 1;
    await expect(publish(store, PATH, { a: '2', b: '2' })).rejects.toThrow('cut off');
    moves.left = Number.POSITIVE_INFINITY;
    await store.lock.release();
    const place = join(directory, 'mirror', PATH, 'c');
    await mkdir(place);
    const again = await opened(directory, 'rename', false);
    await again.lock.release();
    expect(await allIn(join(directory, 'mirror', PATH))).toEqual({ a: '2', b: '2', c: '/' });
    expect((await lstat(place)).isDirectory()).toBe(true);
  });
});
