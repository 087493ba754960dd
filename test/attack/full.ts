import { join } from 'node:path';

import type { Attacked } from '../support/sweep.ts';
import { type Limited, mountLimited, mountsOf, type Room } from './mounts.ts';
import { besideReader, type Opening } from './points.ts';
import type { Prepared } from './prepare.ts';
import { placeWith } from './program.ts';

async function fill(prepared: Prepared, mounted: Limited, room: Room): Promise<Attacked> {
  mounted.leave({});
  const place = await placeWith(join(mounted.folder, 'place'), prepared.restore);
  mounted.leave(room);
  const attack = async () => {
    const ended = await prepared.run(place);
    return { ended, isReached: ended.exitCode !== 0, isStray: false, isKilled: false };
  };
  return besideReader(prepared, place, attack, () => mounted.leave({}));
}

function roomNames({ cell }: Prepared): string[] {
  const { blocks, blockStep, inodes } = cell.scenario.room;
  return [
    ...Array.from({ length: Math.ceil(blocks / blockStep) }, (_, step) => `blocks/${step * blockStep}`),
    ...Array.from({ length: inodes }, (_, left) => `inodes/${left}`),
  ];
}

/** Attacks that leave so much room, and no more. */
export const filling: Opening = () => {
  const mounts = mountsOf(mountLimited);
  return {
    namesOn: roomNames,
    attack: (prepared, name, lane) => {
      const [kind = '', left] = name.split('/');
      return fill(prepared, mounts.of(lane), { [kind]: Number(left) });
    },
    close: mounts.close,
  };
};
