import { contentsPath } from '../lib/api/requests.ts';
import { countNames, type ReferenceForm, referencesFor } from '../mirror/upstream/contents.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { type ArchiveFacts, examineArchive, innerPaths } from './archive.ts';
import type { Ask } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { isArchive } from './words.ts';
import type { ListedWorkbook } from './workbook-list.ts';

/** A repository that is looked into: small enough to be downloaded. */
export interface Subject {
  /** As it is sent, encoded. */
  readonly reference: string;
  /** A branch that is listed; null where none is. */
  readonly branch: string | null;
  /** Those of all its branches. */
  readonly workbooks: readonly ListedWorkbook[];
  /** Path of the contents of that branch. */
  readonly target: string;
  readonly archive: ProbeAnswer;
  /** Null where the archive cannot be read. */
  readonly facts: ArchiveFacts | null;
  /** Greatest archive or file that is downloaded, in bytes. */
  readonly maxBytes: number;
  /** Null where the archive has none. */
  readonly file: SubjectFile | null;
}

/** A single file: a listed workbook if there is one. */
export interface SubjectFile {
  readonly path: string;
  readonly target: string;
  readonly answer: ProbeAnswer;
}

type Candidate = Pick<Subject, 'reference' | 'branch' | 'workbooks' | 'target'>;

/** Repositories of which the size is asked for, at most. */
const MOST_CANDIDATES = 8;
/** Repositories that are downloaded, at most. */
const MOST_DOWNLOADS = 4;
/** A zip archive without entries is its end record alone (APPNOTE 6.3.10, section 4.3.16). */
const EMPTY_ZIP_BYTES = 22;

/** The workbooks of a repository. */
function workbooksOf({ id, fullName }: Repository, listed: readonly ListedWorkbook[]): ListedWorkbook[] {
  return listed.filter(({ integration }) => integration === fullName || integration === id);
}

/**
 * The repositories in the order in which they are tried: those with fewest listed workbooks first, as they may be the
 * smallest, but those with none last, as there is little to see in them.
 */
export function orderCandidates(
  repositories: readonly Repository[],
  listed: readonly ListedWorkbook[],
): Repository[] {
  const weights = new Map(
    repositories.map((each) => [each.id, workbooksOf(each, listed).length || Number.MAX_SAFE_INTEGER]),
  );
  return [...repositories].sort((a, b) => (weights.get(a.id) ?? 0) - (weights.get(b.id) ?? 0));
}

/** How many bytes an answer to HEAD announces; null where it says nothing. */
export function announcedBytes({ status, headers }: ProbeAnswer): number | null {
  const text = headers['content-length'] ?? '';
  return status === 200 && /^[1-9]\d*$/.test(text) ? Number(text) : null;
}

/** Path of something in the subject, on its branch. @param path the whole where it is left out */
export function pathIn({ reference, branch }: Pick<Subject, 'reference' | 'branch'>, path?: string): string {
  return contentsPath(reference, path, branch ?? undefined);
}

/**
 * Finds a repository to look into: the smallest one as far as HEAD tells, else the first whose archive is small enough.
 * @param form the one that works; null where none does
 * @returns null when none can be downloaded
 */
export async function chooseSubject(
  ask: Ask,
  repositories: readonly Repository[],
  listed: readonly ListedWorkbook[],
  form: ReferenceForm | null,
  maxBytes: number,
): Promise<Subject | null> {
  if (form === null) return null;
  const counts = countNames(repositories);
  const sized: Array<Candidate & { readonly sizeBytes: number }> = [];
  for (const repository of orderCandidates(repositories, listed).slice(0, MOST_CANDIDATES)) {
    const reference = referencesFor(repository, counts, form)[0]?.text;
    if (reference === undefined) continue;
    const workbooks = workbooksOf(repository, listed);
    const branch = workbooks[0]?.branch ?? null;
    const target = pathIn({ reference, branch });
    const head = await ask({ target, method: 'HEAD' });
    sized.push({ reference, branch, workbooks, target, sizeBytes: announcedBytes(head) ?? 0 });
  }
  const small = sized.filter(({ sizeBytes }) => sizeBytes <= maxBytes);
  small.sort((a, b) => a.sizeBytes - b.sizeBytes);
  for (const candidate of small.slice(0, MOST_DOWNLOADS)) {
    const { target, branch, workbooks } = candidate;
    const archive = await ask({ target, maxBytes });
    if (!archive.isWhole || !isArchive(archive) || archive.body.length <= EMPTY_ZIP_BYTES) continue;
    const listedPaths = workbooks.flatMap((each) => (each.branch === branch ? [each.path] : []));
    const facts = await examineArchive(archive.body, listedPaths);
    const file = facts === null ? null : await askForFile(ask, candidate, innerPaths(facts), maxBytes);
    return { ...candidate, archive, facts, maxBytes, file };
  }
  return null;
}

async function askForFile(
  ask: Ask,
  candidate: Candidate,
  paths: readonly string[],
  maxBytes: number,
): Promise<SubjectFile | null> {
  const listed = new Set(candidate.workbooks.map((each) => each.path));
  const path = paths.find((each) => listed.has(each)) ?? paths[0];
  if (path === undefined) return null;
  const target = pathIn(candidate, path);
  return { path, target, answer: await ask({ target, maxBytes }) };
}
