import { readTargets, refuseMissing, withReader } from '../open-reader.ts';
import { isPattern } from '../../config/selection.ts';
import { findTargets, noTarget } from '../target-names.ts';
import type { RequestOf } from './requests.ts';
import type { PassOutcome, TaskWork } from './task.ts';

/**
 * Has a pass made now.
 * @returns its result; null if the command does not wait, unless the pass failed before it could find a name
 * @throws MirrorError `target.unknown` for a name that several targets have, or none even after the pass, and for a pattern that fits
 *   none; `directory.unusable`, `disk.*`
 */
export async function poll(
  work: TaskWork,
  { targets, wait }: RequestOf<'poll'>,
): Promise<{ readonly outcome: PassOutcome | null }> {
  await refuseMissing(work.settings.ofDirectory().directory);
  const found = await pathsOf(targets ?? [], work);
  const pass = work.makePass(targets === undefined ? null : found.paths, work.emit);
  if (!wait && found.unknown.length === 0) {
    pass.catch(() => {});
    return { outcome: null };
  }
  const outcome = await pass;
  if (outcome.failure !== null) return { outcome };
  const { unknown, known } = await pathsOf(found.unknown, work);
  const [missing] = unknown;
  if (missing !== undefined) noTarget(missing, known);
  return { outcome: wait ? outcome : null };
}

/**
 * The paths of targets that a pass is about. `unknown` are the paths of no known target, which the pass may find; none if other
 * instances may have them.
 * @throws MirrorError as {@link poll}
 */
async function pathsOf(names: readonly string[], { settings, emit }: Pick<TaskWork, 'settings' | 'emit'>) {
  if (names.length === 0) return { paths: [], unknown: [], known: [] };
  const ofDirectory = settings.ofDirectory();
  return withReader(ofDirectory, emit, async (reader) => {
    const { statuses } = await readTargets(ofDirectory, reader);
    const known = statuses.map(({ target }) => target);
    const { shard, layout } = reader.store;
    const paths = findTargets(names, layout.mirror, known, (name) =>
      // A target may be new, or another instance's.
      isPattern(name) && shard === null ? noTarget(name, known) : [name],
    );
    const isKnown = new Set(known);
    return { paths, unknown: shard === null ? paths.filter((path) => !isKnown.has(path)) : [], known };
  });
}
