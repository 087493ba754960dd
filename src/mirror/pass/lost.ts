import { type Listing, targetKey } from '../upstream/listing.ts';
import type { ListedTarget } from '../plan/targets.ts';
import type { ActionResult } from './execution.ts';
import type { PassContext } from './context.ts';
import type { MirrorStore } from '../store/store.ts';

/**
 * Reports the targets that are gone with their manifests, each once for as long as it stays so: nothing else on the disk tells of
 * them, and the plan takes them for new ones.
 */
export async function reportLost({
  store,
  emit,
  knownLost,
}: Pick<PassContext, 'emit' | 'knownLost'> & {
  readonly store: Pick<MirrorStore, 'lostTargets'>;
}): Promise<readonly ListedTarget[]> {
  const { lost, problem } = await store.lostTargets();
  if (problem !== null) emit({ name: 'inventory.damaged', problem });
  for (const { path } of lost) if (!knownLost.has(path)) emit({ name: 'target.lost', target: path });
  knownLost.clear();
  for (const { path } of lost) knownLost.add(path);
  return lost;
}

/**
 * The lost targets that a later pass is still to bring back: all but those that a complete listing lacks, that the settings do not
 * select, or of which the service has no contents.
 */
export function stillAwaited(
  lost: readonly ListedTarget[],
  { repositoriesComplete }: Listing,
  results: readonly ActionResult[],
): readonly ListedTarget[] {
  if (!repositoriesComplete) return lost;
  const outcomes = new Map(
    results.map(({ action, outcome }) => [targetKey(action.target), outcome.kind] as const),
  );
  return lost.filter((target) => {
    const outcome = outcomes.get(targetKey(target));
    return outcome !== undefined && outcome !== 'absent' && outcome !== 'retired';
  });
}
