import { describe, it, onTestFinished } from 'vitest';

import { MAIN } from '../support/built.ts';
import { chosenCells, say, sweep } from '../support/sweep.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { prepareAll } from './prepare.ts';
import { namesOn, pointOf, SWEEPS } from './sweeps.ts';

/** The number of points for the run of all tests: more kills and errors, which need no mounts. */
const SAMPLE = { cells: 6, points: 48 };
const MOUNTED_SAMPLE = { cells: 3, points: 12 };

for (const each of SWEEPS) {
  const isPossible = each.isPossible();
  if (!isPossible) say(`attacks: the sweep ${each.name} is not possible here and skipped`);
  const sample = ['kills', 'errors'].includes(each.name) ? SAMPLE : MOUNTED_SAMPLE;

  describe.skipIf(!isPossible)(`a program under the attacks of ${each.name}`, () => {
    it('leaves whole trees and what was reported, says why it fails, and the next run completes it', async () => {
      const folder = await temporaryFolder();
      const attacker = each.open(folder);
      onTestFinished(attacker.close);
      const cells = chosenCells(each.name, each.cells, sample.cells);
      const prepared = await prepareAll(cells, { main: MAIN, folder });
      for (const one of prepared) onTestFinished(one.close);
      const points = prepared.flatMap((one) =>
        namesOn(attacker, one).map((name) => pointOf(each, attacker, one, name)),
      );
      await sweep(each.name, points, sample.points);
    });
  });
}
