import { workbooksPath } from '../api/requests.ts';
import { type ApiWorkbook, pageSchema, type WorkbookStatusFilter, workbookSchema } from '../api/schemas.ts';
import { MirrorError } from '../model/errors.ts';
import type { WorkbookRow } from '../model/service.ts';
import { credentialRefused, statusError } from './failures.ts';
import { readJson, wrongKind } from './json.ts';
import { judgeReading, nextPageUrl, type Reading, sameRows } from './pages.ts';
import type { Answer, AnswerLimits, Transport } from './transport.ts';

/** The list of workbooks, all pages of it. */
export interface WorkbookList {
  readonly rows: readonly WorkbookRow[];
  /** False when absence from it proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
}

const MAX_READINGS = 4;

/** Pages without a row that was not seen before: some services give a few empty ones. */
const SPARE_PAGES = 1000;

/** More workbooks than any service has, and than fit into memory; stops pages that are made up as they are asked for. */
const MAX_ROWS = 2_000_000;

/**
 * Reads all pages of the list of workbooks. A list whose pages disagree is read again until it agrees with itself, or
 * until two readings in a row give the same rows: then nothing shifted, but absence from it still proves nothing.
 * @returns null where the service has no v1: no token is configured, or it answers 404
 * @throws MirrorError `listing.inconsistent`, `listing.malformed`, `service.*`, `credentials.refused`
 */
export async function readWorkbooks(
  transport: Transport,
  signal: AbortSignal,
  status?: WorkbookStatusFilter,
): Promise<WorkbookList | null> {
  if (!transport.hasCredential('v1')) return null;
  let previous: Reading<WorkbookRow> | null = null;
  let why = '';
  for (let readings = 0; readings < MAX_READINGS; readings += 1) {
    const reading = await readAllPages(transport, signal, workbooksPath(status));
    if (reading === null) return null;
    const judgement = judgeReading(reading);
    const problems =
      reading.malformed === 0 ? [] : [`${reading.malformed} rows of the list of workbooks are malformed`];
    if (judgement.kind === 'complete') {
      return { rows: reading.rows, isComplete: reading.malformed === 0, problems };
    }
    why = judgement.why;
    if (previous !== null && !reading.isCut && sameRows(previous, reading)) {
      return {
        rows: reading.rows,
        isComplete: false,
        problems: [...problems, `in the list of workbooks ${why}`],
      };
    }
    previous = reading;
  }
  throw new MirrorError(
    'listing.inconsistent',
    `The list of workbooks changes faster than it can be read: ${why}.`,
    {
      hint: 'Nothing was deleted. It is tried again by itself.',
    },
  );
}

async function readAllPages(
  transport: Transport,
  signal: AbortSignal,
  path: string,
): Promise<Reading<WorkbookRow> | null> {
  const rows: WorkbookRow[] = [];
  const counts: number[] = [];
  const keys: string[] = [];
  const known = new Set<string>();
  const visited = new Set<string>();
  let idlePages = 0;
  let greatestCount = 0;
  let malformed = 0;
  let isCut = false;
  let target: string | URL | null = path;
  while (target !== null) {
    const page: Page | null = await transport.send(
      { generation: 'v1', judgesKey: true, target, signal },
      (answer) => {
        if (visited.has(answer.url.href)) throw circular(answer.url);
        return readPage(answer, transport.limits);
      },
    );
    if (page === null) {
      if (visited.size === 0) return null;
      isCut = true;
      break;
    }
    visited.add(page.url.href);
    counts.push(page.count);
    greatestCount = Math.max(greatestCount, page.count);
    malformed += page.malformed;
    const knownBefore = known.size;
    for (const row of page.rows) {
      const key = JSON.stringify([row.id, row.branch, row.versionId]);
      rows.push(row);
      keys.push(key);
      known.add(key);
    }
    if (known.size === knownBefore) idlePages += 1;
    const isIdle = idlePages > SPARE_PAGES || visited.size > greatestCount + SPARE_PAGES;
    if (isIdle || rows.length + malformed > MAX_ROWS) throw endless();
    target = page.next;
  }
  return { rows, counts, malformed, keys, isCut };
}

function circular({ search }: URL): MirrorError {
  return new MirrorError(
    'listing.malformed',
    `The pages of the list of workbooks lead in a circle: ${search}.`,
  );
}

function endless(): MirrorError {
  return new MirrorError('listing.malformed', 'The pages of the list of workbooks do not end.', {
    hint: 'Nothing was deleted. It is tried again by itself; if it stays, report it to the maker of the service.',
  });
}

interface Page {
  readonly url: URL;
  readonly count: number;
  readonly next: URL | null;
  readonly rows: readonly WorkbookRow[];
  readonly malformed: number;
}

async function readPage(answer: Answer, limits: AnswerLimits): Promise<Page | null> {
  if (answer.status === 404) return null;
  if (answer.status === 403) throw credentialRefused('v1', 403, answer.url, [answer.keyPlace]);
  if (answer.status !== 200) throw statusError(answer.status, answer.url, undefined);
  const parsed = pageSchema.safeParse(await readJson(answer, limits));
  if (!parsed.success) throw wrongKind(answer, 'JSON that is not a page of workbooks', parsed.error);
  const { count, next, results } = parsed.data;
  const rows = results.map((row) => workbookSchema.safeParse(row));
  return {
    url: answer.url,
    count,
    next: next === null || next === undefined || next === '' ? null : nextPageUrl(next, answer.url),
    rows: rows.flatMap((row) => (row.success ? [toRow(row.data)] : [])),
    malformed: rows.filter((row) => !row.success).length,
  };
}

function toRow(workbook: ApiWorkbook): WorkbookRow {
  const { version, status } = workbook;
  return {
    id: workbook.id,
    path: workbook.name.replace(/^\/+/, ''),
    repository: workbook.integration,
    branch: version.branch,
    versionId: version.id,
    author: version.author ?? null,
    message: version.message ?? null,
    createdAt: version.created_at ?? null,
    action: version.action ?? null,
    parentId: version.parent?.id ?? null,
    versionStatus: version.status ?? null,
    processing: status?.processing ?? 0,
    failure: status?.failure ?? 0,
    ...fileFacts(workbook.file),
  };
}

function fileFacts(file: ApiWorkbook['file']): Pick<WorkbookRow, 'sizeBytes' | 'sha256'> {
  return {
    ...(typeof file?.size === 'number' ? { sizeBytes: file.size } : {}),
    ...(typeof file?.digest === 'string' ? { sha256: file.digest.toLowerCase() } : {}),
  };
}
