import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Injection } from '../support/strace.ts';
import type { Attacked } from '../support/sweep.ts';
import { type Cut, CUTS, type Journaled, type JournaledKind, mountJournaled, ofLane } from './mounts.ts';
import { injectionOf, killsOf, momentFaults, nameOf, type Opening, recoveryFaults } from './points.ts';
import type { Prepared } from './prepare.ts';
import { placeAt } from './program.ts';
import { isSameTree, readTree } from './trees.ts';

/** The end of a run: killed before a call, or complete, with the power cut just after it. */
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
  return (folder, lanes) => {
    const mounts = Array.from({ length: lanes }, () => mountJournaled(kind));
    return {
      namesOn: (prepared) =>
        Object.keys(CUTS).flatMap((cut) =>
          ['finished', ...killsOf(prepared).map(nameOf)].map((ending) => `${cut}/${ending}`),
        ),
      attack: (prepared, name, lane) => {
        const [cut = '', ...rest] = name.split('/');
        const ending = rest[0] === 'finished' ? null : injectionOf(rest.join('/'));
        return cutOff(prepared, ending, ofLane(mounts, lane), cut as Cut, join(folder, `trace-${lane}`));
      },
      close: async () => {
        for (const each of mounts) await each.remove();
      },
    };
  };
}
