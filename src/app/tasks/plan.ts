import { type Action, isPlannedHold } from '../../mirror/plan/actions.ts';
import type { UnmatchedPattern } from '../../mirror/plan/selection.ts';
import { repositoryFacts } from '../../mirror/pass/context.ts';
import { planPass } from '../../mirror/pass/pass.ts';
import { problemsOf } from '../../mirror/pass/reports.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import { connect, recallInstallation } from '../installation.ts';
import { policyOf } from '../open-mirror.ts';
import { type MirrorReader, withReader } from '../open-reader.ts';
import { type ForeseenChanges, foreseeChanges } from './foreseen-changes.ts';
import type { TaskWork } from './task.ts';

/** The action that a pass would take on a target, and why. */
export interface PlannedTarget extends Pick<Action, 'reason'> {
  readonly target: string;
  readonly action: Action['kind'];
  readonly isHeld: boolean;
  readonly deselection: Action['deselection'] | null;
  readonly movedFrom: string | null;
  /** Size of the archive of the last pull, in bytes; null if there was none. The next size is unknown. */
  readonly lastArchiveBytes: number | null;
  readonly files: number | null;
  /** The changes of files, as far as known; left out unless requested. */
  readonly changes?: ForeseenChanges;
}

/** The plan of a pass that began now, and the effect of the selection. */
export interface PlanReport {
  readonly targets: readonly PlannedTarget[];
  readonly unmatched: readonly UnmatchedPattern[];
  /** Faults of the service's lists, a sentence each. */
  readonly problems: readonly string[];
}

/**
 * Plans a pass, and changes nothing.
 * @param request.files whether to include the changes of files
 * @throws MirrorError `service.*`, `credentials.refused`, `directory.*`, `disk.*`
 */
export async function plan(
  { settings: { ofMirror }, signal, emit }: TaskWork,
  { files }: { readonly files: boolean },
): Promise<PlanReport> {
  const settings = ofMirror();
  const work = async ({ store, state }: MirrorReader): Promise<PlanReport> => {
    const memory = await recallInstallation(state, settings.service.baseUrl);
    const client = connect(settings, memory, emit);
    try {
      const listing = await client.poll(signal, true);
      const context = { store, state, emit: () => {}, now: Date.now };
      const planned = await planPass(context, policyOf(settings), listing, new Map(), 'all');
      const factsFor = repositoryFacts(planned);
      const targets: PlannedTarget[] = [];
      // One at a time: a manifest may be large.
      for (const action of planned.plan) {
        const { kind, published } = action;
        const isUnchanged = kind === 'keep' || kind === 'hold' || published === null;
        const manifest = !files || isUnchanged ? null : await publishedManifest(store.layout, published.path);
        const changes = files
          ? { changes: foreseeChanges(action, manifest, kind === 'pull' ? factsFor(action).rows : null) }
          : {};
        targets.push({ ...plannedTarget(action), ...changes });
      }
      const { unmatched } = planned.selection;
      return { targets, unmatched, problems: problemsOf(listing, Date.now()) };
    } finally {
      await client.close();
    }
  };
  return withReader(settings, emit, work, true);
}

function plannedTarget(action: Action): PlannedTarget {
  const { path, kind, reason, published, moveFrom, deselection = null } = action;
  return {
    target: path,
    action: kind,
    reason,
    isHeld: isPlannedHold(action),
    deselection,
    movedFrom: moveFrom,
    lastArchiveBytes: published?.archiveBytes ?? null,
    files: published?.fileCount ?? null,
  };
}
