import { type ApiWorkbook, workbookSchema } from '../../lib/api/schemas.ts';
import { type MalformedRow, malformedRow } from './answers.ts';
import type { WorkbookRow } from './listing.ts';

/** The rows of a page of the list of workbooks. */
export interface WorkbookRows {
  readonly rows: readonly WorkbookRow[];
  /** Rows that could not be understood. */
  readonly malformed: readonly MalformedRow[];
}

/**
 * Reads the rows of a page one by one, so that one bad row hides no other. Rows are kept for long: texts that several of
 * them have, such as a repository's name or a commit's message, are kept once.
 */
export function readWorkbookRows(results: readonly unknown[]): WorkbookRows {
  const shared = shareTexts();
  const rows: WorkbookRow[] = [];
  const malformed: MalformedRow[] = [];
  for (const [at, result] of results.entries()) {
    const parsed = workbookSchema.safeParse(result);
    if (parsed.success) rows.push(toRow(parsed.data, shared));
    else malformed.push(malformedRow(result, parsed.error.issues, at));
  }
  return { rows, malformed };
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
