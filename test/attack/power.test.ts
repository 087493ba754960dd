import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, it } from 'vitest';

import { hasStrace, type Injection, runInjected, runNode } from '../support/strace.ts';
import { type Attacked, type AttackPoint, chosenCells, LANES, say, sweep } from '../support/sweep.ts';
import { canCutPower, type Cut, CUTS, type Journaled, JOURNALED, mountJournaled } from './mounts.ts';
import { killsOf, momentFaults, pointsOf, recoveryFaults } from './points.ts';
import { prepareAll, type Prepared } from './prepare.ts';
import { placeAt } from './program.ts';
import { CELLS } from './scenarios.ts';
import { isSameTree, readTree } from './trees.ts';

/** How much is tried in the run of all tests, of each file system. */
const SAMPLE = { cells: 3, points: 10 };

const SCENARIO_NAMES = new Set(['first', 'mixed', 'one-file', 'retire', 'move']);
const POWER_CELLS = CELLS.filter(({ scenario }) => SCENARIO_NAMES.has(scenario.name));
const KINDS = Object.keys(JOURNALED) as (keyof typeof JOURNALED)[];

/** Where a run is cut off: killed before a call, or not at all but for the power cut just after its end. */
type Ending = Injection | null;

async function cutOff(
  prepared: Prepared,
  ending: Ending,
  mounted: Journaled,
  cut: Cut,
  trace: string,
): Promise<Attacked> {
  const root = join(mounted.folder, 'place');
  await rm(root, { recursive: true, force: true });
  const place = await placeAt(root);
  await prepared.restore(place);
  mounted.flush();
  const program = prepared.program(place);
  const { ended, isReached } =
    ending === null
      ? { ended: await runNode(program), isReached: true }
      : await runInjected(program, ending, trace);
  mounted.cutPower(cut);
  const violations: string[] = [];
  for (const [target, tree] of prepared.expected) {
    const isReported = ended.exitCode === 0 || ended.stderr.includes(`✓ ${target}: published`);
    const found = await readTree(join(place.directory, 'mirror', target));
    if (isReported && !isSameTree(found, tree)) violations.push(`${target} was reported and is not there`);
  }
  violations.push(...(await momentFaults(prepared, place)), ...(await recoveryFaults(prepared, place)));
  return { isReached, violations };
}

for (const kind of KINDS) {
  const isPossible = hasStrace && canCutPower(kind);
  if (!isPossible) say(`attacks: the power of ${kind} cannot be cut here; its sweep is skipped`);

  describe.skipIf(!isPossible)(`a power cut on ${kind}`, () => {
    let folder = '';
    let prepared: readonly Prepared[] = [];
    const mounts: Journaled[] = [];

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
      for (let lane = 0; lane < LANES; lane += 1) mounts.push(mountJournaled(kind));
      prepared = await prepareAll(chosenCells(POWER_CELLS, SAMPLE.cells), folder);
    });

    afterAll(async () => {
      for (const each of mounts) await each.remove();
      for (const each of prepared) await each.close();
      await rm(folder, { recursive: true, force: true });
    });

    it('takes nothing that was reported, and leaves whole trees, which the next run completes', async () => {
      const attackOf =
        (each: Prepared, ending: Ending, cut: Cut): AttackPoint['attack'] =>
        async (lane) => {
          const mounted = mounts[lane];
          if (mounted === undefined) throw new Error('no file system for this lane');
          return cutOff(each, ending, mounted, cut, join(folder, `trace-${lane}`));
        };
      const pointOf = (each: Prepared, ending: Ending, cut: Cut, id: string): AttackPoint => ({
        id: `${kind}/${cut}/${id}`,
        stratum: ending === null ? `${cut} finished` : `${cut} ${each.cell.id}`,
        attack: attackOf(each, ending, cut),
      });
      const pointsWith = (cut: Cut): AttackPoint[] => {
        const finished = prepared.map((each) => pointOf(each, null, cut, `${each.cell.id}/finished`));
        return finished.concat(pointsOf(prepared, killsOf, (each, kill, id) => pointOf(each, kill, cut, id)));
      };
      const points = (Object.keys(CUTS) as Cut[]).flatMap(pointsWith);
      await sweep(`power cuts on ${kind}`, points, SAMPLE.points);
    });
  });
}
