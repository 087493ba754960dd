import { closing } from '../../lib/concurrency/shared-work.ts';
import { type Action, isPlannedHold } from '../../mirror/plan/actions.ts';
import { repositoryFacts } from '../../mirror/pass/context.ts';
import { planPass } from '../../mirror/pass/pass.ts';
import { problemsOf } from '../../mirror/pass/reports.ts';
import { changesByPath, type RepositoryRows, rowsByFile, workbookOf } from '../../mirror/plan/workbooks.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import { byCodeUnits, type Manifest } from '../../mirror/store/manifest.ts';
import { connect, recallInstallation } from '../installation.ts';
import { policyOf } from '../open-mirror.ts';
import { type MirrorReader, withReader } from '../open-reader.ts';
import { differenceOf, type FileDifference, fileDifferences } from './file-differences.ts';
import type { TaskWork } from './task.ts';

/**
 * Plans a pass, and changes nothing. Also finds the effect of the selection, and the faults of the service's lists, a sentence each.
 * @param request.files whether to include the changes of files
 * @throws MirrorError `service.*`, `credentials.refused`, `directory.*`, `disk.*`
 */
export async function plan(
  { settings: { ofMirror }, signal, emit }: TaskWork,
  { files }: { readonly files: boolean },
) {
  const settings = ofMirror();
  const work = async ({ store, state }: MirrorReader) => {
    const { memory } = await recallInstallation(state, settings.service.baseUrl);
    return closing(connect(settings, memory, emit), async (client) => {
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
    });
  };
  return withReader(settings, emit, work, true);
}

/** The action that a pass would take on a target, and why; `changes` are those of its files, if they are requested. */
export type PlannedTarget = ReturnType<typeof plannedTarget> & {
  readonly changes?: ReturnType<typeof foreseeChanges>;
};

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

/**
 * Foresees the changes of files by an action from the lists; incomplete if only the contents show the others, and deletions. Only they show
 * whether a workbook that is no longer listed is gone.
 * @param published the manifest of its tree; null without a tree
 * @param rows null if the service has no list of workbooks
 */
export function foreseeChanges(action: Action, published: Manifest | null, rows: RepositoryRows | null) {
  switch (action.kind) {
    case 'keep':
    case 'hold':
      return { differences: [], isComplete: true };
    case 'retire':
      return { differences: fileDifferences(published?.files ?? [], []), isComplete: true };
    case 'pull':
      return {
        differences: listedChanges(published, rows, action.target.branch),
        isComplete: changesByPath(action, published, rows)?.gone.length === 0,
      };
  }
}

/** The workbooks of a branch that are listed with another version than the published one. */
function listedChanges(
  published: Manifest | null,
  rows: RepositoryRows | null,
  branch: string,
): FileDifference[] {
  const files = new Map(published?.files.map((file) => [file.path, file]));
  return [...rowsByFile(rows, branch, published?.files ?? []).values()]
    .flatMap((row): FileDifference[] => {
      const { path, versionId, sizeBytes = null, sha256 = null } = row;
      const file = files.get(path) ?? null;
      const isSame = file !== null && (file.workbook?.versionId === versionId || file.sha256 === sha256);
      return isSame ? [] : [differenceOf(file, { path, sizeBytes, sha256, workbook: workbookOf(row) })];
    })
    .sort((a, b) => byCodeUnits(a.path, b.path));
}
