import { type Listing, targetKey } from '../upstream/listing.ts';
import type { ListedTarget } from '../plan/published.ts';
import type { ActionResult } from './results.ts';
import type { PassContext } from './context.ts';
import { lostTargets } from '../store/target-list.ts';

/**
 * Reports the targets that are gone with their manifests, each once for as long as it stays so: nothing else on the disk tells of
 * them, and the plan takes them for new ones.
 */
export async function reportLost({
  store,
  emit,
  reported,
}: Pick<PassContext, 'emit' | 'reported'> & {
  readonly store: Parameters<typeof lostTargets>[0];
}): Promise<readonly ListedTarget[]> {
  const { lost, problem } = await lostTargets(store);
  if (problem !== null) emit({ name: 'inventory.damaged', problem });
  const paths = lost.map(({ path }) => path);
  for (const target of reported.news('lost', paths)) emit({ name: 'target.lost', target });
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
