import { readTargets, refuseMissing, withReader } from '../open-reader.ts';
import { isPattern } from '../../config/selection.ts';
import { findTargets, noTarget } from '../target-names.ts';
import type { PassOutcome, TaskWork } from './task.ts';

/**
 * Has a pass made now.
 * @param request.targets names of targets to try and repair, even if they wait; all if omitted
 * @returns its result; null if the command does not wait
 * @throws MirrorError `target.unknown` for a name that several targets have and a pattern that fits none, `directory.unusable`, `disk.*`
 */
export async function poll(
  work: TaskWork,
  { targets, wait }: { readonly targets?: readonly string[] | undefined; readonly wait: boolean },
): Promise<{ readonly outcome: PassOutcome | null }> {
  await refuseMissing(work.settings.ofDirectory().directory);
  const paths = targets === undefined ? null : await pathsOf(targets, work);
  const outcome = work.makePass(paths, (event) => work.report({ event }));
  if (wait) return { outcome: await outcome };
  outcome.catch(() => {});
  return { outcome: null };
}

/** The paths of targets that a pass is about. @throws MirrorError as {@link poll} */
export function pathsOf(
  names: readonly string[],
  { settings, report }: Pick<TaskWork, 'settings' | 'report'>,
): Promise<readonly string[]> {
  const ofDirectory = settings.ofDirectory();
  return withReader(
    ofDirectory,
    (event) => report({ event }),
    async (reader) => {
      const { statuses } = await readTargets(ofDirectory, reader);
      const known = statuses.map(({ target }) => target);
      const { shard, layout } = reader.store;
      return findTargets(names, layout.mirror, known, (name) =>
        // A target may be new, or another instance's.
        isPattern(name) && shard === null ? noTarget(name, known) : [name],
      );
    },
  );
}
