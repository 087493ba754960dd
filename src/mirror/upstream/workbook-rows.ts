import { hash } from 'node:crypto';

import { type ApiWorkbook, workbookSchema } from '../../lib/api/schemas.ts';
import { type MalformedRow, malformedRow } from './malformed-rows.ts';
import type { WorkbookRow } from './listing.ts';

/** The rows of a page of the list of workbooks. */
export interface WorkbookRows {
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
  readonly dropped: DroppedRows;
}

/** The rows of a page that nobody wants: they count, and that is all. */
export interface DroppedRows {
  /** Digests of the rows, by which one is known that comes twice. */
  readonly digests: readonly number[];
  /** Their repositories, as the service names them. */
  readonly repositories: ReadonlySet<string>;
}

/**
 * Reads the rows of a page one by one, so that one bad row hides no other. Rows are kept for long: texts that several of
 * them have, such as a repository's name or a commit's message, are kept once.
 * @param wants whether the rows of a repository are kept, by the name that the service gives it there
 */
export function readWorkbookRows(
  results: readonly unknown[],
  wants: (repository: string) => boolean,
): WorkbookRows {
  const shared = shareTexts();
  const rows: WorkbookRow[] = [];
  const digests: number[] = [];
  const repositories = new Set<string>();
  const malformed: MalformedRow[] = [];
  for (const [at, result] of results.entries()) {
    const parsed = workbookSchema.safeParse(result);
    if (!parsed.success) malformed.push(malformedRow(result, parsed.error.issues, at));
    else if (wants(parsed.data.integration)) rows.push(toRow(parsed.data, shared));
    else {
      digests.push(digestOf(parsed.data));
      repositories.add(shared(parsed.data.integration));
    }
  }
  return { rows, malformed, dropped: { digests, repositories } };
}

/** So many hexadecimal digits make a number that JavaScript holds exactly. */
const DIGEST_DIGITS = 13;

function digestOf({ id, version }: ApiWorkbook): number {
  const digits = hash('sha256', JSON.stringify([id, version.branch, version.id]));
  return Number.parseInt(digits.slice(0, DIGEST_DIGITS), 16);
}

/** Gives for a text the first one that was equal to it. */
type SharedTexts = <Text extends string | null>(text: Text) => Text | string;

function shareTexts(): SharedTexts {
  const known = new Map<string, string>();
  return (text) => {
    if (text === null) return text;
    const before = known.get(text);
    if (before === undefined) known.set(text, text);
    return before ?? text;
  };
}

function toRow(workbook: ApiWorkbook, shared: SharedTexts): WorkbookRow {
  const { version, status, id } = workbook;
  const repository = shared(workbook.integration);
  return {
    id,
    path: pathIn(id, repository, workbook.name.replace(/^\/+/, '')),
    repository,
    branch: shared(version.branch),
    versionId: shared(version.id),
    author: shared(version.author ?? null),
    message: shared(version.message ?? null),
    createdAt: shared(version.created_at ?? null),
    action: shared(version.action ?? null),
    parentId: shared(version.parent?.id ?? null),
    versionStatus: shared(version.status ?? null),
    processing: status?.processing ?? 0,
    failure: status?.failure ?? 0,
    ...fileFacts(workbook.file),
  };
}

/** The path, as a part of the id where it is one: the engine keeps a part of a text without copying it. */
function pathIn(id: string, repository: string, path: string): string {
  const at = repository.length + 1;
  const isPart =
    id.length === at + path.length && id[at - 1] === '/' && id.startsWith(repository) && id.endsWith(path);
  return isPart ? id.slice(at) : path;
}

function fileFacts(file: ApiWorkbook['file']): Pick<WorkbookRow, 'sizeBytes' | 'sha256'> {
  return {
    ...(typeof file?.size === 'number' ? { sizeBytes: file.size } : {}),
    ...(typeof file?.digest === 'string' ? { sha256: file.digest.toLowerCase() } : {}),
  };
}
