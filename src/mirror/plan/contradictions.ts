import { hash } from 'node:crypto';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { formatDuration } from '../../lib/text/units.ts';
import { CLOCK_STEP_MS, isAhead } from '../../lib/time/wrong-clock.ts';
import { type Manifest, type ManifestFile, type SkippedEntry, byCodeUnits } from '../store/manifest.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { Doubt } from './record.ts';
import {
  groupRows,
  isDeletion,
  isFinished,
  type RepositoryRows,
  rowsAtFiles,
  rowsByFile,
  rowsOf,
  showsEachBranch,
  targetDigest,
} from './workbooks.ts';

/**
 * A workbook about which the list and the contents disagree.
 *
 * - `missing`: it is listed, and the contents lack it.
 * - `other-bytes`: its file has another size or SHA-256 than the list says.
 * - `outdated`: the list has a new version, but the contents still have the bytes of the version before.
 * - `unannounced`: the list has the published version, but the bytes differ: they may be newer than the list, or older.
 * - `lingering`: the list no longer has the published workbook, or shows it as deleted, but the contents still have it.
 */
export interface Contradiction {
  readonly kind: 'missing' | 'other-bytes' | 'outdated' | 'unannounced' | 'lingering';
  /** The path of its file; of a missing one, its path in the list. */
  readonly path: string;
  readonly versionId: string;
  /** SHA-256 of the file, in hexadecimal digits; null for a missing one. */
  readonly sha256: string | null;
  /** Whether the list says that the service is still processing the workbook; left out if it has no row of it. */
  readonly isProcessed?: boolean;
}

/** A list of workbooks beside the contents of a branch: a pull groups the rows and files once, and compares both by that. */
export interface ListedContents {
  readonly rows: RepositoryRows;
  readonly branch: string;
  /** Whether these are all rows: otherwise a missing row says nothing. */
  readonly hasAllRows: boolean;
  /** The files by their paths; null for an entry that is deliberately left out of the tree. */
  readonly files: ReadonlyMap<string, ManifestFile | null>;
  /** The rows of the branch by the paths of their files: a list may have several for one workbook. */
  readonly byFile: ReadonlyMap<string, readonly WorkbookRow[]>;
}

/** Groups the rows of a branch by the files of received contents. */
export function listedContents(
  rows: RepositoryRows,
  hasAllRows: boolean,
  branch: string,
  contents: { readonly files: readonly ManifestFile[]; readonly skipped: readonly SkippedEntry[] },
): ListedContents {
  const files = new Map<string, ManifestFile | null>(contents.files.map((file) => [file.path, file]));
  for (const { path } of contents.skipped) files.set(path, null);
  return { rows, branch, hasAllRows, files, byFile: rowsByFile(rows, branch, files) };
}

/**
 * Compares the list with contents. The published state is read from its manifest, even if its files were changed on disk.
 * @param listed rows of other branches prove nothing
 * @param previous the manifest of the published tree; null if nothing is published
 * @param nowMs milliseconds since the epoch
 * @returns sorted by path
 */
export function findContradictions(
  listed: ListedContents,
  previous: Pick<Manifest, 'files' | 'missing' | 'settled' | 'verifiedAtMs'> | null,
  nowMs: number,
): Contradiction[] {
  const published = new Map(previous?.files.map((file) => [file.path, file]));
  const accepted = new Set(previous?.missing);
  // Contents that lack an old version may only lag behind a new one. A version from the future would be new at every comparison.
  const isNew = ({ createdAt }: WorkbookRow): boolean => {
    const createdAtMs = Date.parse(createdAt ?? '');
    return createdAtMs > (previous?.verifiedAtMs ?? 0) && !isAhead(nowMs + CLOCK_STEP_MS, createdAtMs);
  };
  const found = workbooksDue(listed).flatMap(([path, rows]): Contradiction[] => {
    const file = listed.files.get(path) ?? null;
    const kind = file === null ? 'missing' : contradictionOf(rows, file, published.get(path));
    const isAccepted = kind === 'missing' && accepted.has(path) && !rows.some(isNew);
    if (kind === null || isAccepted) return [];
    const isProcessed = !rows.every(isFinished);
    // Contents that the service processes, or did when they were pulled, may change under the same version.
    if (kind === 'unannounced' && (isProcessed || previous?.settled === false)) return [];
    const [{ versionId } = { versionId: '' }] = rows;
    return [{ kind, path, versionId, sha256: file?.sha256 ?? null, isProcessed }];
  });
  const lingering = listed.hasAllRows ? lingeringWorkbooks(listed, published) : [];
  return [...found, ...lingering].sort((a, b) => byCodeUnits(a.path, b.path));
}

/**
 * The published workbooks that a whole list no longer has, or deletes, and the contents still have, perhaps with older bytes. A list
 * that shows each workbook once may show it on another branch.
 */
function lingeringWorkbooks(
  { rows, branch, files, byFile }: ListedContents,
  published: ReadonlyMap<string, ManifestFile>,
): Contradiction[] {
  const unlisted: Contradiction[] = [];
  for (const [path, { workbook }] of published) {
    const { sha256 } = files.get(path) ?? {};
    const isListed = byFile.get(path)?.some((row) => !isDeletion(row)) === true;
    if (sha256 === undefined || workbook === undefined || isListed) continue;
    unlisted.push({ kind: 'lingering', path, versionId: workbook.versionId, sha256 });
  }
  if (unlisted.length === 0 || showsEachBranch(rows)) return unlisted;
  const others = rows.all.filter((row) => row.branch !== branch);
  const elsewhere = new Set(rowsAtFiles(others, files).map(({ path }) => path));
  return unlisted.filter(({ path }) => !elsewhere.has(path));
}

/** Whether a new or changed file has a row without a digest: its bytes may already be of a version after the listed one. */
export function hasUnproven({ byFile }: ListedContents, written: readonly string[]): boolean {
  return written.some((path) => byFile.get(path)?.some(({ sha256 }) => sha256 === undefined) === true);
}

/**
 * The rows of a list, without the rows of a branch that a list read after the contents no longer has. Such a workbook changed
 * in between, and the contents may have either version: its file gets no version, and the next pass asks again.
 * @returns the same value only if the later list has just these rows: the contents may also have a workbook that is new in it
 */
export function rowsInBoth(rows: RepositoryRows, branch: string, later: RepositoryRows): RepositoryRows {
  if (targetDigest(rows, branch) === targetDigest(later, branch)) return rows;
  const key = ({ path, versionId }: WorkbookRow): string => JSON.stringify([path, versionId]);
  const after = new Set(rowsOf(later, branch).map(key));
  return groupRows(rows.all.filter((row) => row.branch !== branch || after.has(key(row))));
}

/** The listed workbooks of a branch that contents lack, sorted by path. */
export function missingWorkbooks(listed: ListedContents): string[] {
  const paths = workbooksDue(listed).map(([path]) => path);
  return paths.filter((path) => !listed.files.has(path)).sort();
}

/** The listed workbooks that contents should have, with their rows: no deleted ones, and no files that are left out of the tree. */
function workbooksDue({ files, byFile }: ListedContents) {
  return [...byFile].filter(([path, rows]) => files.get(path) !== null && !rows.some(isDeletion));
}

function contradictionOf(
  listed: readonly WorkbookRow[],
  file: ManifestFile,
  published: ManifestFile | undefined,
): Contradiction['kind'] | null {
  if (!listed.some((row) => fits(row, file))) return 'other-bytes';
  const knownId = published?.workbook?.versionId;
  // A digest of the list proves the bytes; without a known version there is nothing to compare with.
  if (knownId === undefined || listed.some(({ sha256 }) => sha256 === file.sha256)) return null;
  if (published?.sha256 === file.sha256) {
    return listed.every(({ versionId }) => versionId !== knownId) ? 'outdated' : null;
  }
  return listed.every(({ versionId }) => versionId === knownId) ? 'unannounced' : null;
}

/** Whether a file has the size and the digest of a row, if the row gives them. */
function fits({ sizeBytes, sha256 }: WorkbookRow, file: ManifestFile): boolean {
  return (sizeBytes ?? file.sizeBytes) === file.sizeBytes && (sha256 ?? file.sha256) === file.sha256;
}

/** After this many answers that agree, the contents are believed instead of the list. */
const ANSWERS_BELIEVED = 3;

/** The answers must span this time, so that contents that lag a little behind the list are waited for. In milliseconds. */
const LEAST_DOUBT_MS = 5000;

/** The same about a workbook that the service is still processing: its contents rightly lag behind. In milliseconds. */
const LEAST_DOUBT_PROCESSING_MS = 15 * 60_000;

function leastDoubtMs(contradictions: readonly Contradiction[]): number {
  return contradictions.some(({ isProcessed }) => isProcessed === true)
    ? LEAST_DOUBT_PROCESSING_MS
    : LEAST_DOUBT_MS;
}

/**
 * How many deleted workbooks that the contents still have are compared with those of the answer before. If there are more, every
 * other number of them begins a new doubt.
 */
const LINGERING_COMPARED = 1000;

/**
 * The doubt that remains after an answer: until it is resolved, nothing of the contents is published.
 * @param before the doubt before this answer; null for none
 * @param nowMs milliseconds since the epoch
 * @returns null if the list agrees, or if enough answers agree. Bytes with a wrong digest are never believed.
 */
export function nextDoubt(
  before: Doubt | null,
  contradictions: readonly Contradiction[],
  nowMs: number,
): Doubt | null {
  if (contradictions.length === 0) return null;
  // Leaves out what would prolong the doubt again and again: new versions of a workbook with unchanged bytes.
  const digested = contradictions.map(({ kind, path, sha256 }) =>
    JSON.stringify(kind === 'lingering' ? [kind] : [kind, path, sha256]),
  );
  const digest = hash('sha256', [...new Set(digested)].join('\n'));
  const lingering = contradictions.flatMap(({ kind, path }) => (kind === 'lingering' ? [path] : []));
  const compared = lingering.slice(0, LINGERING_COMPARED);
  // A list that the service makes again lacks fewer workbooks each time. One that lacks others shows further deletions.
  const known = new Set(before?.lingering);
  const isSame =
    before?.digest === digest && before.sinceMs <= nowMs && compared.every((path) => known.has(path));
  const { answers, sinceMs } = isSame ? before : { answers: 0, sinceMs: nowMs };
  const isBelieved =
    answers + 1 >= ANSWERS_BELIEVED &&
    nowMs - sinceMs >= leastDoubtMs(contradictions) &&
    contradictions.every(({ kind }) => kind !== 'other-bytes');
  return isBelieved ? null : { digest, answers: answers + 1, sinceMs, lingering: compared };
}

/** A sentence for each kind, the most serious first: the message names the first contradiction of the most serious kind. */
const SENTENCES: Readonly<Record<Contradiction['kind'], (name: string, version: string) => string>> = {
  'other-bytes': (name, version) =>
    `The file ${name} has another size or SHA-256 than the list says of its version ${version}`,
  missing: (name, version) =>
    `The list shows the workbook ${name} with version ${version}, and the contents lack it`,
  unannounced: (name, version) =>
    `The list shows the published version ${version} of ${name}, and the contents have other bytes for it`,
  outdated: (name, version) =>
    `The list shows the new version ${version} of ${name}, and the contents still have the bytes of the version before`,
  lingering: (name) =>
    `The list no longer shows the workbook ${name}, or shows it as deleted, and the contents still have it`,
};

const KINDS = Object.keys(SENTENCES);

/** The list and the contents contradict each other, and not often enough yet for the contents to be believed. */
export class ContradictedError extends MirrorError {
  readonly doubt: Doubt;

  /** @param contradictions at least one */
  constructor(contradictions: readonly Contradiction[], doubt: Doubt) {
    const [first] = contradictions.toSorted((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
    const { kind, path, versionId } = first ?? { kind: 'missing', path: '', versionId: '' };
    // Enough digits of a commit's identifier to recognise it.
    const version = /^[0-9a-f]{40}$/.test(versionId) ? versionId.slice(0, 8) : versionId;
    const others = contradictions.length - 1;
    const more =
      others === 0 ? '' : ` They also contradict each other about ${counted(others, 'other workbook')}.`;
    const end =
      kind === 'other-bytes'
        ? 'if it stays, ask the operator of the service which of the two is right'
        : `once ${ANSWERS_BELIEVED} answers agree over at least ${formatDuration(leastDoubtMs(contradictions))}, the contents are believed`;
    super(
      'contents.contradicted',
      `${SENTENCES[kind](JSON.stringify(path), version)} (${counted(doubt.answers, 'answer')} said so until now).${more}`,
      { hint: `The published tree stays as it is. The next passes compare again: ${end}.` },
    );
    this.doubt = doubt;
  }
}

/** The warning about listed workbooks that the contents lack. @param paths at least one */
export function missingSentence(paths: readonly string[]): string {
  const [first = ''] = paths;
  const more = paths.length === 1 ? '' : ` and ${counted(paths.length - 1, 'more workbook')}`;
  return `the list of the service shows ${JSON.stringify(first)}${more}, and its contents lack ${paths.length === 1 ? 'it' : 'them'}`;
}
