import { closing } from '../../lib/concurrency/shared-work.ts';
import { type Action, isPlannedHold } from '../../mirror/plan/actions.ts';
import { planPass } from '../../mirror/pass/pass.ts';
import { problemsOf } from '../../mirror/pass/reports.ts';
import { connect, recallInstallation } from '../installation.ts';
import { policyOf } from '../open-mirror.ts';
import { type MirrorReader, withReader } from '../open-reader.ts';
import type { TaskWork } from './task.ts';

/**
 * Plans a pass, and changes nothing. Also finds the effect of the selection, and the faults of the service's lists, a sentence each.
 * @throws MirrorError `service.*`, `credentials.refused`, `directory.*`, `disk.*`
 */
export function plan({ settings: { ofMirror }, signal, emit }: TaskWork) {
  const settings = ofMirror();
  const work = async ({ store, state }: MirrorReader) => {
    const { memory } = await recallInstallation(state, settings.service.baseUrl);
    return closing(connect(settings, memory, emit), async (client) => {
      const listing = await client.poll(signal, true);
      const context = { store, state, emit: () => {}, now: Date.now };
      const planned = await planPass(context, policyOf(settings), listing, new Map(), 'all');
      const { unmatched } = planned.selection;
      return {
        targets: planned.plan.map(plannedTarget),
        unmatched,
        problems: problemsOf(listing, Date.now()),
      };
    });
  };
  return withReader(settings, emit, work, true);
}

/** The action that a pass would take on a target, and why. */
export type PlannedTarget = ReturnType<typeof plannedTarget>;

function plannedTarget(action: Action) {
  const { path, kind, reason, published, moveFrom, deselection = null } = action;
  return {
    target: path,
    action: kind,
    reason,
    isHeld: isPlannedHold(action),
    deselection,
    movedFrom: moveFrom,
    /** Size of the archive of the last pull, in bytes; null if there was none. The next size is unknown. */
    lastArchiveBytes: published?.archiveBytes ?? null,
    files: published?.fileCount ?? null,
  };
}
