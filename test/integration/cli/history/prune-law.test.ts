import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { restoreHistory } from '../../../../src/cli/history/restore.ts';
import { readHistory } from '../../../../src/mirror/store/history/history.ts';
import { pruneHistory } from '../../../../src/mirror/store/publish/sweep.ts';
import { readManifest } from '../../../../src/mirror/store/inventory.ts';
import { manifestPath } from '../../../../src/mirror/store/layout.ts';
import { startPair } from '../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const TARGET = 'Accounting/main';

/** A change of one of few files to one of few contents, so that the same bytes leave and come back; null removes it. */
const change = fc.record({ file: fc.nat(3), bytes: fc.option(fc.nat(2)) });

/** The share of the states that is older than the limit, and whether the limit is at a state, or just after it. */
const limit = fc.record({ share: fc.double({ min: 0, max: 1, noNaN: true }), afterMs: fc.nat(1) });

async function filesIn(folder: string): Promise<ReadonlyMap<string, string>> {
  const names = await readdir(folder);
  const files = names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const);
  return new Map(await Promise.all(files));
}

it('every state that pruning leaves comes back byte for byte, and none is left that is older than the limit', async () => {
  const folder = await temporaryFolder();
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 2, maxLength: 6 }), limit, async (changes, cut) => {
      const { service, mirror } = await startPair({}, { HISTORY_REPLACED: 'forever', GUARD_FILES: 'off' });
      const repository = service.addRepository('Accounting', { 'stays.xlsx': 'stays', '0.xlsx': '0' });
      const { store } = mirror.context;
      const states = new Map<number, ReadonlyMap<string, string>>();
      const tree = join(store.layout.mirror, TARGET);
      const passed = async (): Promise<void> => {
        await mirror.pass();
        const published = await readManifest(manifestPath(store.layout, TARGET));
        states.set(published?.publishedAtMs ?? 0, await filesIn(tree));
      };
      await passed();
      for (const { file, bytes } of changes) {
        const name = `${file}.xlsx`;
        const before = (await filesIn(tree)).get(name);
        // A new version with the bytes before is doubted for some seconds.
        if (before === bytes?.toString()) continue;
        if (bytes === null) service.remove(repository, 'main', name);
        else service.write(repository, 'main', name, String(bytes));
        await passed();
      }
      const kept = await readHistory(store.layout);
      const beforeMs = (kept[Math.floor(cut.share * kept.length)]?.atMs ?? Date.now()) + cut.afterMs;
      const nowMs = Date.now();
      const age = { kind: 'age', ageMs: nowMs - beforeMs } as const;
      await pruneHistory({ ...store, retention: { retired: age, replaced: age } }, nowMs);
      const left = await readHistory(store.layout);
      expect(left).toEqual(kept.filter(({ atMs }) => atMs >= beforeMs));
      for (const { atMs, manifest } of left) {
        const to = join(await mkdtemp(join(folder, 'state-')), 'restored');
        await restoreHistory(mirror.diskSettings, { target: TARGET, atMs, to });
        expect(await filesIn(to)).toEqual(states.get((await readManifest(manifest))?.publishedAtMs ?? 0));
      }
      await mirror.expectExact();
    }),
    { numRuns: 12 },
  );
});
