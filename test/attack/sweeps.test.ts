import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, it } from 'vitest';

import { MAIN } from '../support/built.ts';
import { chosenCells, say, sweep } from '../support/sweep.ts';
import { type Attacker } from './points.ts';
import { prepareAll, type Prepared } from './prepare.ts';
import { namesOn, pointOf, SWEEPS } from './sweeps.ts';

/** The number of points for the run of all tests: more kills and errors, which need no mounts. */
const SAMPLE = { cells: 6, points: 48 };
const MOUNTED_SAMPLE = { cells: 3, points: 12 };

for (const each of SWEEPS) {
  const isPossible = each.isPossible();
  if (!isPossible) say(`attacks: the sweep ${each.name} is not possible here and skipped`);
  const sample = ['kills', 'errors'].includes(each.name) ? SAMPLE : MOUNTED_SAMPLE;

  describe.skipIf(!isPossible)(`a program under the attacks of ${each.name}`, () => {
    let folder = '';
    let attacker: Attacker | null = null;
    let prepared: readonly Prepared[] = [];

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
      const bench = { main: MAIN, folder };
      attacker = each.open(folder);
      prepared = await prepareAll(chosenCells(each.name, each.cells, sample.cells), bench);
    });

    afterAll(async () => {
      await attacker?.close();
      for (const one of prepared) await one.close();
      await rm(folder, { recursive: true, force: true });
    });

    it('leaves whole trees and what was reported, says why it fails, and the next run completes it', async () => {
      const opened = attacker;
      if (opened === null) throw new Error('the sweep was not opened');
      const points = prepared.flatMap((one) =>
        namesOn(opened, one).map((name) => pointOf(each, opened, one, name)),
      );
      await sweep(each.name, points, sample.points);
    });
  });
}
