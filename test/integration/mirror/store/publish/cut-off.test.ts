import { publishedManifest } from '../../../../../src/mirror/store/inventory.ts';
import { moveTree, retireTree } from '../../../../../src/mirror/store/publish/publish.ts';
import { lstat, mkdir, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import type * as Durable from '../../../../../src/lib/disk/durable.ts';
import type { Manifest } from '../../../../../src/mirror/store/manifest.ts';
import type { PublishMode } from '../../../../../src/mirror/store/publish/moves.ts';
import type { MirrorStore } from '../../../../../src/mirror/store/disk.ts';
import { type Files, openTestStore, publishFiles } from '../../../../support/published.ts';
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

/** Sorts entries by their names. */
function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
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
const CHANGES: Readonly<Record<string, (store: MirrorStore, next: Files) => Promise<unknown>>> = {
  publish: (store, next) => publishFiles(store, PATH, next),
  'publish of another repository': (store, next) => publishFiles(store, PATH, next, 'id-2'),
  retire: (store) => retireTree(store, PATH),
  rename,
  [TO_TAKEN]: rename,
};

function opened(directory: string, publish: PublishMode, keepsReplaced: boolean): Promise<MirrorStore> {
  const replaced = { kind: keepsReplaced ? 'forever' : 'off' } as const;
  return openTestStore(directory, { publish, retention: { retired: { kind: 'forever' }, replaced } });
}

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
            await publishFiles(first, PATH, before);
            if (change === TO_TAKEN) await publishFiles(first, OTHER, next, 'id-2');
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
    await publishFiles(store, PATH, { a: '1', b: '1' });
    moves.left = 1;
    await expect(publishFiles(store, PATH, { a: '2', b: '2' })).rejects.toThrow('cut off');
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
