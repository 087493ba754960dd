import { join } from 'node:path';

import type { Injection } from '../support/strace.ts';
import type { Attacked } from '../support/sweep.ts';
import { type Cut, CUTS, type Journaled, type JournaledKind, mountJournaled, mountsOf } from './mounts.ts';
import { injectionOf, killsOf, momentFaults, nameOf, type Opening, recoveryFaults } from './points.ts';
import type { Prepared } from './prepare.ts';
import { placeWith } from './program.ts';
import { isSameTree, readTree } from './trees.ts';

/** Cuts the power just after a run. @param ending the call before which the run is killed; null to let it end */
async function cutOff(
  prepared: Prepared,
  ending: Injection | null,
  mounted: Journaled,
  cut: Cut,
  trace: string,
): Promise<Attacked> {
  const place = await placeWith(join(mounted.folder, 'place'), prepared.restore);
  mounted.flush();
  const { ended, isReached } =
    ending === null
      ? { ended: await prepared.run(place), isReached: true }
      : await prepared.runInjected(place, ending, trace);
  mounted.cutPower(cut);
  const violations = ended.isHung ? ['it hangs'] : [];
  for (const [target, tree] of prepared.expected) {
    const isReported = ended.exitCode === 0 || ended.stderr.includes(`✓ ${target}: published`);
    const found = await readTree(join(place.directory, 'mirror', target));
    if (isReported && !isSameTree(found, tree)) violations.push(`${target} was reported and is not there`);
  }
  violations.push(...(await momentFaults(prepared, place)), ...(await recoveryFaults(prepared, place)));
  return { isReached, violations };
}

/** Attacks that cut the power of one kind of file system. */
export function cuttingPower(kind: JournaledKind): Opening {
  return (folder) => {
    const mounts = mountsOf(() => mountJournaled(kind));
    return {
      namesOn: (prepared) =>
        Object.keys(CUTS).flatMap((cut) =>
          ['finished', ...killsOf(prepared).map(nameOf)].map((ending) => `${cut}/${ending}`),
        ),
      attack: (prepared, name, lane) => {
        const [cut = '', ...rest] = name.split('/');
        const ending = rest[0] === 'finished' ? null : injectionOf(rest.join('/'));
        return cutOff(prepared, ending, mounts.of(lane), cut as Cut, join(folder, `trace-${lane}`));
      },
      close: mounts.close,
    };
  };
}
