import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Attacked } from '../support/sweep.ts';
import { startReader } from './invariants.ts';
import { type Limited, mountLimited, ofLane, type Room } from './mounts.ts';
import { endingFaults, momentFaults, type Opening, recoveryFaults } from './points.ts';
import type { Prepared } from './prepare.ts';
import { placeAt } from './program.ts';

async function fill(prepared: Prepared, mounted: Limited, room: Room): Promise<Attacked> {
  const root = join(mounted.folder, 'place');
  await mounted.leave({ blocks: null, inodes: null });
  await rm(root, { recursive: true, force: true });
  const place = await placeAt(root);
  await prepared.restore(place);
  await mounted.leave(room);
  const reader = startReader(place.directory, prepared.expectation);
  try {
    const ended = await prepared.run(place);
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

function roomNames({ cell }: Prepared): string[] {
  const { blocks, blockStep, inodes } = cell.scenario.room;
  return [
    ...Array.from({ length: Math.ceil(blocks / blockStep) }, (_, step) => `blocks/${step * blockStep}`),
    ...Array.from({ length: inodes }, (_, left) => `inodes/${left}`),
  ];
}

function roomOf(name: string): Room {
  const [kind, left] = name.split('/');
  return { blocks: null, inodes: null, [kind === 'blocks' ? 'blocks' : 'inodes']: Number(left) };
}

/** Attacks that leave so much room, and no more. */
export const filling: Opening = (_folder, lanes) => {
  const mounts = Array.from({ length: lanes }, () => mountLimited());
  return {
    namesOn: roomNames,
    attack: (prepared, name, lane) => fill(prepared, ofLane(mounts, lane), roomOf(name)),
    close: async () => {
      for (const each of mounts) await each.remove();
    },
  };
};
