import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasStrace, runNode } from '../support/strace.ts';
import { type Attacked, type AttackPoint, chosenCells, LANES, say, sweep } from '../support/sweep.ts';
import { startReader } from './invariants.ts';
import { canMount, type Limited, mountLimited, type Room } from './mounts.ts';
import { endingFaults, momentFaults, recoveryFaults } from './points.ts';
import { prepareAll, type Prepared } from './prepare.ts';
import { placeAt } from './program.ts';
import { CELLS } from './scenarios.ts';

/** How much is tried in the run of all tests. */
const SAMPLE = { cells: 3, points: 16 };

/** More than any scenario takes: with the last ones of these it succeeds. */
const MOST = { blocks: 90, inodes: 45 };

const FULL_CELLS = CELLS.filter(({ scenario }) => !scenario.isInterrupted);

const isPossible = hasStrace && canMount;
if (!isPossible) say('attacks: nothing can be mounted here; the sweep of full file systems is skipped');

async function fill(prepared: Prepared, mounted: Limited, room: Room): Promise<Attacked> {
  const root = join(mounted.folder, 'place');
  await mounted.leave({ blocks: null, inodes: null });
  await rm(root, { recursive: true, force: true });
  const place = await placeAt(root);
  await prepared.restore(place);
  await mounted.leave(room);
  const reader = startReader(place.directory, prepared.expectation);
  try {
    const ended = await runNode(prepared.program(place));
    const violations = [
      ...(await endingFaults(prepared, place, ended)),
      ...(await momentFaults(prepared, place)),
    ];
    if (violations.length > 0) violations.push(`it said: ${ended.stderr.trim()}`);
    await mounted.leave({ blocks: null, inodes: null });
    violations.push(...(await recoveryFaults(prepared, place)), ...(await reader.stop()));
    return { isReached: ended.exitCode !== 0, violations };
  } finally {
    await reader.stop();
  }
}

function roomsOf(): { name: string; room: Room }[] {
  const upTo = (most: number): number[] => Array.from({ length: most }, (_, left) => left);
  return [
    ...upTo(MOST.blocks).map((left) => ({ name: `blocks/${left}`, room: { blocks: left, inodes: null } })),
    ...upTo(MOST.inodes).map((left) => ({ name: `inodes/${left}`, room: { blocks: null, inodes: left } })),
  ];
}

describe.skipIf(!isPossible)('a file system without room', () => {
  let folder = '';
  let prepared: readonly Prepared[] = [];
  const mounts: Limited[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
    for (let lane = 0; lane < LANES; lane += 1) mounts.push(mountLimited());
    prepared = await prepareAll(chosenCells(FULL_CELLS, SAMPLE.cells), folder);
  });

  afterAll(async () => {
    for (const each of mounts) await each.remove();
    for (const each of prepared) await each.close();
    await rm(folder, { recursive: true, force: true });
  });

  const on = (lane: number): Limited => {
    const mounted = mounts[lane];
    if (mounted === undefined) throw new Error('no file system for this lane');
    return mounted;
  };

  it('leaves whole trees and says why, and with room again the next run completes them', async () => {
    const points = prepared
      .filter(({ flaws }) => flaws.length === 0)
      .flatMap((each) =>
        roomsOf().map(({ name, room }): AttackPoint => ({
          id: `full/${each.cell.id}/${name}`,
          stratum: `${each.cell.id}/${name.slice(0, 6)}`,
          attack: (lane) => fill(each, on(lane), room),
        })),
      );
    await sweep('full file systems', points, SAMPLE.points);
  });

  it('is refused by its name when it is mounted read-only', async () => {
    const [first] = prepared;
    if (first === undefined) return;
    const mounted = on(0);
    const place = await placeAt(join(mounted.folder, 'read-only'));
    await first.restore(place);
    mounted.setReadOnly(true);
    const ended = await runNode(first.program(place));
    mounted.setReadOnly(false);
    expect(ended.stderr).toContain('mounted read-only');
    expect(ended.exitCode).toBe(2);
    expect(await recoveryFaults(first, place)).toEqual([]);
  });
});
