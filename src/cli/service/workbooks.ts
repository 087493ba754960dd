import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { checkTargetList } from '../../mirror/store/documents.ts';
import { createInventory, manifestPaths, readManifestFile } from '../../mirror/store/inventory.ts';
import { layoutOf, manifestPath } from '../../mirror/store/layout.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import { judged, type Outcome, table, tell, textOf } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { createWorkbookFilter, type WorkbookFlags } from './workbook-filter.ts';

/** `workbooks list` */
export async function runWorkbooksList(command: Command): Promise<Outcome> {
  const { offline, status, ...flags } = command.opts<
    WorkbookFlags & { offline?: true; status?: WorkbookStatusFilter }
  >();
  // Check the flags before reading anything.
  const filter = createWorkbookFilter(flags, Date.now());
  if (offline === true) {
    const { directory } = settingsOf(command, ['directory']).settings;
    return listOffline(directory, filter, flags.name !== undefined);
  }
  const { rows, problems } = await runOnce(command, 'workbooks', { status });
  const chosen = rows.filter(filter);
  const cells = chosen.map((row) => [...cellsOf(row), String(row.processing), String(row.failure)]);
  const end = [`${counted(chosen.length, 'workbook')}.`, ...problems];
  return { data: chosen, text: () => describe(['PROCESSING', 'FAILURE'], cells, end) };
}

/** The columns of both lists. */
const HEADINGS = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR'];

function cellsOf({ id, branch, versionId, createdAt, author }: WorkbookRow | MirroredRow): string[] {
  return [id ?? '-', branch, versionId?.slice(0, 10) ?? '-', createdAt ?? '-', author ?? '-'];
}

/** Describes a list to a person. @param headings of its own columns @param end the lines below it */
function describe(
  headings: readonly string[],
  cells: readonly (readonly string[])[],
  end: readonly string[],
): TerminalText {
  return textOf(cells.length > 0 && [table([...HEADINGS, ...headings], cells), ''], end);
}

/**
 * Lists the matching workbooks of a mirror from its manifests, for all instances that share the directory, even while a
 * daemon runs. Standard error gets the problems that may hide some workbooks.
 * @param withOthers whether to include files that are not in the service's list
 * @throws MirrorError `directory.unusable`, `disk.failed`
 */
async function listOffline(
  directory: string,
  filter: (row: MirroredRow) => boolean,
  withOthers: boolean,
): Promise<Outcome> {
  await refuseMissing(directory);
  const layout = layoutOf(directory);
  const rows: MirroredRow[] = [];
  const problems: string[] = [];
  let targets = 0;
  for (const path of await manifestPaths(layout)) {
    const found = await readManifestFile(manifestPath(layout, path)).catch((error: unknown) => {
      return { manifest: null, problem: toMirrorError(error).message.replace(/\.$/, '') };
    });
    const manifest = found?.manifest ?? null;
    if (manifest === null) {
      problems.push(`The manifest of ${path} cannot be used: ${found?.problem ?? 'it was moved just now'}.`);
      continue;
    }
    targets += 1;
    for (const row of rowsOf(path, manifest, withOthers)) if (filter(row)) rows.push(row);
  }
  const inventory = createInventory(layout);
  const { inventoryProblem, lost } = await checkTargetList({ layout, inventory, now: Date.now });
  for (const { path } of lost)
    problems.push(`${path} is lost: inventory.json names it, and it has no manifest.`);
  if (inventoryProblem !== null)
    problems.push(`inventory.json cannot be used: ${inventoryProblem}; a target may be lost.`);
  if (targets + problems.length === 0) tell(say`Nothing is mirrored in ${directory}.`, 'warn');
  if (problems.length > 0) {
    const more = `So there may be more than this; \`${ownCommand('verify')}\` looks at everything.`;
    tell(textOf(problems, more), 'warn');
  }
  const isComplete = targets > 0 && problems.length === 0;
  return judged(isComplete, rows, () => describeMirrored(rows, targets));
}

/** A file of the mirror, with the fields of a row of the service's list; null if the manifest does not have them. */
export type MirroredRow = ReturnType<typeof rowsOf>[number];

/** The workbooks of a tree, sorted by path, which is within the tree. */
function rowsOf(target: string, { repository, branch, files }: Manifest, withOthers: boolean) {
  return files
    .filter(({ workbook }) => withOthers || workbook !== undefined)
    .map(({ path, sizeBytes, sha256, workbook }) => ({
      id: workbook?.id ?? null,
      path,
      repository: repository.fullName,
      branch,
      versionId: workbook?.versionId ?? null,
      author: workbook?.author ?? null,
      message: workbook?.message ?? null,
      createdAt: workbook?.createdAt ?? null,
      action: workbook?.action ?? null,
      parentId: workbook?.parentId ?? null,
      versionStatus: null,
      processing: null,
      failure: null,
      sizeBytes,
      sha256,
      target,
    }));
}

/** Describes the list of a mirror to a person. */
function describeMirrored(rows: readonly MirroredRow[], targets: number): TerminalText {
  const cells = rows.map((row) => [...cellsOf(row), row.target, row.path]);
  const workbooks = rows.filter(({ id }) => id !== null).length;
  const others = rows.length - workbooks;
  const found = `${counted(workbooks, 'workbook')}${others === 0 ? '' : ` and ${counted(others, 'other file')}`}`;
  const fresh = `\`${ownCommand('status')}\` says how fresh that is.`;
  const end = `${found} found in ${counted(targets, 'target')}, as published; ${fresh}`;
  return describe(['TARGET', 'PATH'], cells, [end]);
}
