import { readdirSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import * as fc from 'fast-check';
import { expect, it, vi } from 'vitest';

import { TreeWatch } from '../../../../src/daemon/drift/tree-watch.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const folder = fc
  .array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 3 })
  .map((names) => names.join('/'));

/** An action below a watched folder; it may fail. */
const step = fc.oneof(
  fc.record({ kind: fc.constant('make' as const), at: folder }),
  fc.record({ kind: fc.constant('remove' as const), at: folder }),
  fc.record({ kind: fc.constant('move' as const), at: folder, to: folder }),
  fc.record({ kind: fc.constant('write' as const), at: folder }),
  fc.record({ kind: fc.constant('wait' as const), turns: fc.nat({ max: 3 }) }),
);

type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never;

async function take(root: string, each: Step): Promise<void> {
  if (each.kind === 'make') await mkdir(join(root, each.at), { recursive: true });
  else if (each.kind === 'remove') await rm(join(root, each.at), { recursive: true, force: true });
  else if (each.kind === 'move') await rename(join(root, each.at), join(root, each.to));
  else if (each.kind === 'write') await writeFile(join(root, each.at, 'file'), '');
  else for (let turns = 0; turns < each.turns; turns += 1) await new Promise(setImmediate);
}

it('reports a file in every existing folder, after any additions, removals and moves of folders', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const directory = await temporaryFolder();
      const root = join(directory, 'mirror');
      await mkdir(join(root, 'a/b'), { recursive: true });
      const told: string[] = [];
      const errors: unknown[] = [];
      const watched = new TreeWatch(
        directory,
        ['mirror'],
        (path) => told.push(join(directory, path)),
        (error) => errors.push(error),
      );
      await watched.ready;
      for (const each of steps) await take(root, each).catch(() => {});
      for (let before = -1; before !== told.length; await pause(40)) before = told.length;
      const folders = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) =>
        entry.isDirectory(),
      );
      for (const entry of folders) {
        const file = join(entry.parentPath, entry.name, 'last');
        await writeFile(file, '');
        await vi.waitFor(() => expect(told).toContain(file), { timeout: 60_000, interval: 2 });
      }
      await watched.close();
      expect(errors).toEqual([]);
    }),
    { numRuns: 100 },
  );
});
