import type { SettingsFor } from '../../config/schema.ts';
import { formatRetention } from '../../config/plan-settings.ts';
import type { TargetOnDisk, TargetState } from '../../app/tasks/diff-report.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { type HistoryEntry, keptAt, manifestOfEntry } from '../../mirror/store/history/history.ts';
import { notKept } from '../history/restore.ts';

/**
 * The state before the published one, or the last one of what is mirrored no longer.
 * @throws MirrorError `history.not_found`, `history.damaged`, `disk.*`
 */
export async function stateBefore(
  { path, published, kept }: TargetOnDisk,
  { history: { replaced } }: Pick<SettingsFor<never>, 'history'>,
): Promise<TargetState> {
  for (const entry of kept.toReversed()) {
    const state = await stateOfEntry(entry);
    // One that was published while the two were read stands in both places.
    if (state.manifest?.publishedAtMs !== published.manifest?.publishedAtMs) return state;
  }
  const others = `\`${ownCommand('diff --upstream', path)}\` compares it with what the service has now.`;
  throw new MirrorError('history.not_found', `The history keeps no state of ${path} before this one.`, {
    hint:
      replaced.kind === 'off'
        ? `In these settings history.replaced is off: with 10, or 30d, what a newer version replaces is kept from then on. ${others}`
        : `In these settings history.replaced keeps ${formatRetention(replaced)}: nothing of it was replaced since, or it is pruned. ${others}`,
  });
}

/**
 * The state that the mirror had at a time.
 * @param timeMs milliseconds since the epoch
 * @throws MirrorError `history.not_found`, `history.damaged`, `disk.*`
 */
export async function stateAt({ path, published, kept }: TargetOnDisk, timeMs: number): Promise<TargetState> {
  const entry = keptAt(kept, timeMs, Date.now());
  const state = entry === null ? published : await stateOfEntry(entry);
  return state.manifest === null || state.manifest.publishedAtMs > timeMs ? notKept(path, timeMs) : state;
}

async function stateOfEntry(entry: HistoryEntry): Promise<TargetState> {
  const { kind, atMs } = entry;
  return { place: 'history', manifest: await manifestOfEntry(entry), left: { kind, atMs } };
}
