import { hash } from 'node:crypto';

import { z } from 'zod';

import { REPOSITORIES_PATH } from '../../lib/api/requests.ts';
import { repositoriesSchema, repositorySchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, parseJson, serviceTimeMs, strongTag, type Cached, withBytes } from './answers.ts';
import { wrongKind, addressHint, statusError } from './failures.ts';
import { credentialRefused, type Keyring } from './keyring.ts';
import type { Repository } from './listing.ts';
import type { Transport, TransportRequest } from './transport.ts';

/** The parts of the transport that lists need. */
export interface ListTransport extends Pick<Transport, 'address' | 'send'> {
  readonly keyring: Pick<Keyring, 'hasKey'>;
}

/** The request for a list, or a page of one. */
export type PageRequest = Pick<TransportRequest, 'generation' | 'target' | 'signal'>;

/** The last reading of a list, or of a page of one. */
export interface Page<Contents> {
  /** The requested address. */
  readonly asked: string;
  /** The address that it came from. */
  readonly url: URL;
  /** SHA-256 of its bytes. */
  readonly digest: string;
  /** Strong entity tag, for conditional requests (RFC 9110, section 13.1.2); null if the service gives none. */
  readonly etag: string | null;
  /** Null if no cache gave it. */
  readonly cached: Cached | null;
  /** The service's clock, in milliseconds since the epoch (RFC 9110, section 6.6.1); null if it gives no time. */
  readonly serviceTimeMs: number | null;
  /** Whether the answer says that the list continues elsewhere (Link: rel="next", RFC 8288). */
  readonly isContinued: boolean;
  readonly contents: Contents;
}

/**
 * Reads a page. A page with the same bytes as last time returns the same contents: it is neither decoded nor parsed.
 * @param known the last page from this address; undefined if unknown
 * @returns null if the service has no page there
 */
export async function readPage<Contents>(
  transport: ListTransport,
  request: PageRequest,
  known: Page<Contents> | undefined,
  understand: (answer: Answer, json: unknown) => Contents,
): Promise<Page<Contents> | null> {
  const headers = typeof known?.etag === 'string' ? { 'if-none-match': known.etag } : {};
  const page = await transport.send({ ...request, headers }, async (answer) => {
    const { status, url, cached } = answer;
    const { date, link } = answer.headers;
    const facts = { url, cached, serviceTimeMs: serviceTimeMs(date), isContinued: hasNext(link) };
    // A redirect may lead to another place than last time, about which `known` says nothing.
    const isKnownPlace = url.href === known?.url.href;
    if (status === 404) return null;
    // Without a condition, "not modified" says nothing about the list.
    if (status === 304 && typeof known?.etag === 'string')
      return isKnownPlace
        ? { ...known, ...facts, isContinued: facts.isContinued || known.isContinued }
        : 'elsewhere';
    if (status === 403) throw credentialRefused(request.generation, 403, url);
    if (status !== 200) throw statusError(status, url, undefined);
    const read = await withBytes(answer, (bytes) => {
      const digest = hash('sha256', bytes, 'base64');
      const isSame = isKnownPlace && digest === known.digest;
      return { digest, contents: isSame ? known.contents : understand(answer, parseJson(answer, bytes)) };
    });
    const etag = strongTag(answer.headers['etag']);
    return { ...facts, asked: String(request.target), etag, ...read };
  });
  return page === 'elsewhere' ? readPage(transport, request, undefined, understand) : page;
}

/** The repositories that the rows of the list name. */
interface RepositoryRows {
  readonly repositories: readonly Repository[];
  /** False if rows were malformed or contradict each other, so that absence proves nothing. */
  readonly isComplete: boolean;
  /** The legible short names of repositories that are left out; null if there may be any, as the list goes on elsewhere. */
  readonly hiddenNames: readonly string[] | null;
  /** A sentence each. */
  readonly problems: readonly string[];
}

/** The list of repositories. */
export interface RepositoryList extends RepositoryRows {
  /** The service's clock, in milliseconds since the epoch; null if it gives no time. */
  readonly serviceTimeMs: number | null;
  /** Null if no cache gave it. */
  readonly cached: Cached | null;
}

/** The last reading of the list. A list with the same bytes returns the same value. */
export interface RepositoryMemory {
  repositories?: Page<RepositoryRows>;
}

/**
 * Reads `GET /repos` (service specification, section 4.1). If that does not exist it tries `/repositories`; if that gives the
 * list, the transport uses that name for all repositories and contents.
 * @param memory the last reading; is updated
 * @throws MirrorError `credentials.refused`, `service.*`, `pass.abandoned`
 */
export async function readRepositories(
  transport: ListTransport & Pick<Transport, 'usesOtherName'>,
  signal: AbortSignal,
  memory: RepositoryMemory = {},
): Promise<RepositoryList> {
  const request = { generation: 'current', target: REPOSITORIES_PATH, signal } as const;
  const read = (): Promise<Page<RepositoryRows> | null> =>
    readPage(transport, request, memory.repositories, (answer, json) => {
      const rows = repositoriesSchema.safeParse(json);
      if (!rows.success) throw wrongKind(answer, 'JSON that is not a list of repositories', rows.error);
      return readRepositoryRows(rows.data);
    });
  let page = await read();
  if (page === null && !transport.usesOtherName) {
    transport.usesOtherName = true;
    try {
      page = await read();
    } finally {
      // Otherwise one 404 would let all later passes ask for a list that was never there.
      transport.usesOtherName = page !== null;
    }
  }
  if (page === null) {
    transport.usesOtherName = false;
    const message = `${transport.address}${REPOSITORIES_PATH} does not exist (status 404).`;
    const hint = addressHint(new URL(transport.address));
    throw new MirrorError('service.not_found', message, { hint });
  }
  memory.repositories = page;
  const { contents, cached, serviceTimeMs, isContinued } = page;
  const problems = [...contents.problems, ...(isContinued ? [CONTINUED] : [])];
  const isComplete = contents.isComplete && !isContinued;
  const hiddenNames = isContinued ? null : contents.hiddenNames;
  return { ...contents, isComplete, hiddenNames, problems, serviceTimeMs, cached };
}

const CONTINUED =
  'the list of repositories has further pages (Link: rel="next"), which are not read: their repositories are not mirrored, and no repository counts as gone';

/** Whether a Link header has the relation `next` (RFC 8288, section 3.3). */
function hasNext(link = ''): boolean {
  const relations = link.matchAll(/;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,]+))/gi);
  return [...relations].some(([, quoted, bare]) =>
    (quoted ?? bare ?? '').toLowerCase().split(/\s+/).includes('next'),
  );
}

/** The parts of malformed rows that still matter. */
const namedSchema = z.looseObject({ name: z.string() });
const branchSchema = z.looseObject({ version: z.looseObject({ branch: z.string().min(1) }) });

/**
 * Reads the rows one by one, so that a bad row hides no other. If rows give one id different names, none of them counts: to
 * believe the wrong one would move a tree. Nothing is lost by that, as such a list does not prove that a repository is gone.
 */
export function readRepositoryRows(rows: readonly unknown[]): RepositoryRows {
  const byId = new Map<string, Repository>();
  const contradicted = new Set<string>();
  const malformed: MalformedRow[] = [];
  const hiddenNames: string[] = [];
  for (const [at, row] of rows.entries()) {
    const parsed = repositorySchema.safeParse(row);
    if (!parsed.success) {
      malformed.push(malformedRow(row, parsed.error, at));
      const { name = '' } = namedSchema.safeParse(row).data ?? {};
      hiddenNames.push(name);
      continue;
    }
    const { id, name, full_name: fullName, url: address = null, created_at: createdAt = null } = parsed.data;
    const url = address && withoutUserInfo(address);
    const before = byId.get(id);
    if (before === undefined) byId.set(id, { id, name, fullName, url, createdAt });
    else if (before.name !== name || before.fullName !== fullName) {
      contradicted.add(id);
      hiddenNames.push(before.name, name);
    }
  }
  return {
    repositories: [...byId.values()].filter(({ id }) => !contradicted.has(id)),
    isComplete: malformed.length === 0 && contradicted.size === 0,
    hiddenNames,
    problems: [
      ...malformedSentences(
        'repositories',
        malformed,
        () => 'its repository is not mirrored, and no repository counts as gone',
      ),
      ...[...contradicted].map(
        (id) => `the list of repositories gives ${JSON.stringify(id)} several names, and all are ignored`,
      ),
    ],
  };
}

/** An address without credentials that a service may have left in it: every user can read manifests. */
function withoutUserInfo(address: string): string {
  const url = URL.parse(address);
  const hasAny = url !== null && `${url.username}${url.password}` !== '';
  if (!hasAny || !url.protocol.startsWith('http')) return address;
  url.username = '';
  url.password = '';
  return url.href;
}

/** A malformed row of a list. */
export interface MalformedRow {
  /** The repository that it names; null if it names none legibly. */
  readonly repository: string | null;
  /** The branch of its version; null if it names none legibly. */
  readonly branch: string | null;
  /** The row and its fault, for a person. */
  readonly fault: string;
}

/** The longest part of a name that is shown. */
const MAX_SHOWN_LENGTH = 200;

/** Reads the usable parts of a row. @param at its place in its answer, from 0 */
export function malformedRow(row: unknown, { issues }: z.ZodError, at: number): MalformedRow {
  const fields: Partial<Record<string, unknown>> = typeof row === 'object' && row !== null ? { ...row } : {};
  const [id = '', name = '', integration = ''] = ['id', 'name', 'integration'].map((field) =>
    typeof fields[field] === 'string' ? fields[field] : '',
  );
  const shown = JSON.stringify((id || name).slice(0, MAX_SHOWN_LENGTH));
  const place = `row ${at + 1} of its answer`;
  const field = issues[0]?.path.map(String).join('.') ?? '';
  const fault = field === '' ? 'is no object' : `has nothing usable in its field ${JSON.stringify(field)}`;
  // A workbook's id is the name of its repository, followed by its own name (service specification, section 2.2).
  const isOwn = name.startsWith('/') && id.endsWith(name) && id.length > name.length;
  return {
    repository: integration || (isOwn ? id.slice(0, -name.length) : null),
    branch: branchOf(row),
    fault: `${shown === '""' ? place : `the row of ${shown} (${place})`} ${fault}`,
  };
}

function branchOf(row: unknown): string | null {
  return branchSchema.safeParse(row).data?.version.branch ?? null;
}

/** How many rows are named one by one. */
const ROWS_NAMED = 5;

/** Describes malformed rows, a sentence each; those that name no repository come first. */
export function malformedSentences(
  list: 'repositories' | 'workbooks',
  rows: readonly MalformedRow[],
  consequence: (row: MalformedRow) => string,
): readonly string[] {
  const sorted = rows.toSorted((a, b) => Number(a.repository !== null) - Number(b.repository !== null));
  const named = sorted.slice(0, ROWS_NAMED).map((row) => `${row.fault}: ${consequence(row)}`);
  const more = rows.length > ROWS_NAMED ? [`${rows.length - ROWS_NAMED} more rows are malformed`] : [];
  return [...named, ...more].map((sentence) => `in the list of ${list}, ${sentence}`);
}
