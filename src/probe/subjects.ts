import { contentsPath } from '../lib/api/requests.ts';
import { countNames, type ReferenceForm, referencesFor } from '../mirror/upstream/reference-forms.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import type { Asker } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { kindOf } from './words.ts';
import type { ListedWorkbook } from './workbook-list.ts';

/** What is looked into: a repository that is small enough to be downloaded. */
export interface SubjectSeen {
  readonly repository: Repository;
  /** As it is sent, encoded. */
  readonly reference: string;
  /** A branch that is listed; null where none is. */
  readonly branch: string | null;
  readonly archive: ProbeAnswer;
  readonly workbooks: readonly ListedWorkbook[];
}

/** Repositories of which the size is asked for, and that are tried as a subject, at most. */
const MOST_CANDIDATES = 8;

/** Whether an answer is contents: a zip archive. */
export function isArchive(answer: ProbeAnswer): boolean {
  return answer.status === 200 && kindOf(answer) === 'zip archive';
}

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

/**
 * Finds a repository to look into: the smallest one as far as HEAD tells, else the first whose archive is small enough.
 * @returns null when none can be downloaded
 */
export async function chooseSubject(
  asker: Asker,
  repositories: readonly Repository[],
  listed: readonly ListedWorkbook[],
  form: ReferenceForm,
): Promise<SubjectSeen | null> {
  const counts = countNames(repositories);
  const candidates = orderCandidates(repositories, listed).slice(0, MOST_CANDIDATES);
  const sized: Array<{
    repository: Repository;
    reference: string;
    branch: string | null;
    sizeBytes: number | null;
  }> = [];
  for (const repository of candidates) {
    const reference = referencesFor(repository, counts, form)[0]?.text;
    if (reference === undefined) continue;
    const branch = workbooksOf(repository, listed)[0]?.branch ?? null;
    const head = await asker.current(contentsPath(reference, undefined, branch ?? undefined), {
      method: 'HEAD',
    });
    sized.push({ repository, reference, branch, sizeBytes: announcedBytes(head) });
  }
  const small = sized.filter(({ sizeBytes }) => (sizeBytes ?? 0) <= asker.maxDownloadBytes);
  for (const { repository, reference, branch } of small
    .sort((a, b) => (a.sizeBytes ?? 0) - (b.sizeBytes ?? 0))
    .slice(0, 4)) {
    const target = contentsPath(reference, undefined, branch ?? undefined);
    const archive = await asker.current(target, { maxBytes: asker.maxDownloadBytes });
    const isUseful = archive.isWhole && isArchive(archive) && archive.body.length > EMPTY_ZIP_BYTES;
    if (isUseful)
      return { repository, reference, branch, archive, workbooks: workbooksOf(repository, listed) };
  }
  return null;
}

/** A zip archive without entries is its end record alone (APPNOTE 6.3.10, section 4.3.16). */
const EMPTY_ZIP_BYTES = 22;
