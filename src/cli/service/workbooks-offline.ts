import { refuseMissing } from '../../app/open-reader.ts';
import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { everyManifest, type ReadManifest } from './every-manifest.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { WorkbookRow } from '../../mirror/upstream/listing.ts';
import { beginJsonArray, columnsOf, printData, tell } from '../frame/output.ts';
import { createWorkbookFilter, type WorkbookFlags } from './workbook-filter.ts';

/** The facts of a row that every file of a mirror has. */
type Known = 'path' | 'repository' | 'branch';

/** A file of the mirror, with the fields of a row of the service's list; null for what the manifest does not tell. */
export type MirroredRow = Pick<WorkbookRow, Known> & {
  readonly [Field in keyof Required<Omit<WorkbookRow, Known>>]: Required<WorkbookRow>[Field] | null;
} & {
  /** As below `mirror/`; `path` is the file's in its tree. */
  readonly target: string;
};

/** What was found, how much there was to look at, and what could not be looked at. */
interface Found {
  readonly workbooks: number;
  readonly otherFiles: number;
  readonly targets: number;
  readonly problems: readonly string[];
}

/**
 * Prints the workbooks of a mirror that fit, as they are found: memory does not grow with the mirror.
 * @throws MirrorError `usage.invalid`, `directory.unusable`, `disk.failed`
 */
export async function listOffline(
  directory: string,
  flags: WorkbookFlags,
  isJson: boolean,
): Promise<ExitCode> {
  // Before anything is read: they may be wrong.
  const filter = createWorkbookFilter(flags, Date.now());
  await refuseMissing(directory);
  const printer = isJson ? beginJsonArray() : beginTable();
  let [workbooks, otherFiles, targets] = [0, 0, 0];
  const problems: string[] = [];
  // Nothing stops it in order: what is cut off is not to be taken for the whole.
  for await (const found of everyManifest(layoutOf(directory), new AbortController().signal)) {
    if ('problem' in found) {
      problems.push(found.problem);
      continue;
    }
    targets += 1;
    const rows = rowsOf(found, flags.name !== undefined).filter(filter);
    const known = rows.filter(({ id }) => id !== null).length;
    workbooks += known;
    otherFiles += rows.length - known;
    printer.add(rows);
  }
  printer.end();
  const found = { workbooks, otherFiles, targets, problems };
  if (!isJson && targets > 0) printData(describeFound(found));
  if (targets + problems.length === 0) tell(say`Nothing is mirrored in ${directory}.`, 'warn');
  if (problems.length > 0) {
    const more = `So there may be more than this; \`${ownCommand('verify')}\` looks at everything.`;
    tell(joinLines([...problems, more]), 'warn');
  }
  return targets === 0 || problems.length > 0 ? EXIT_CODES.incomplete : EXIT_CODES.ok;
}

/**
 * The workbooks of a tree, sorted by path.
 * @param withOthers whether files that are not in the service's list are among them
 */
function rowsOf({ path: target, manifest }: ReadManifest, withOthers: boolean): MirroredRow[] {
  const { repository, branch, files } = manifest;
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

const HEADINGS = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR', 'TARGET', 'PATH'];

/** Rows that are held until their columns are laid out. */
const BLOCK_ROWS = 1000;

/** As {@link beginJsonArray}, for a person. */
function beginTable(): { readonly add: (rows: readonly MirroredRow[]) => void; readonly end: () => void } {
  const layOut = columnsOf(HEADINGS);
  let block: string[][] = [];
  let isBegun = false;
  const print = (): void => {
    printData(joinLines(layOut(isBegun ? block : [HEADINGS, ...block])));
    isBegun = true;
    block = [];
  };
  return {
    add: (rows) => {
      for (const row of rows) {
        block.push(cellsOf(row));
        if (block.length === BLOCK_ROWS) print();
      }
    },
    end: () => {
      if (block.length > 0) print();
      if (isBegun) printData(say`\n`);
    },
  };
}

function cellsOf({ id, branch, versionId, createdAt, author, target, path }: MirroredRow): string[] {
  return [id ?? '-', branch, versionId?.slice(0, 10) ?? '-', createdAt ?? '-', author ?? '-', target, path];
}

/** The end of the list, for a person. */
function describeFound({ workbooks, otherFiles, targets }: Found): TerminalText {
  const others = otherFiles === 0 ? '' : ` and ${counted(otherFiles, 'other file')}`;
  return say`${counted(workbooks, 'workbook')}${others} found in ${counted(targets, 'target')}, as published; \`${ownCommand('status')}\` says how fresh that is.`;
}
