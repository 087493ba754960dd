import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';

import { ZipFile } from 'yazl';

/**
 * The service in memory, over HTTP, with a knob for every "not shown" in its specification and for every known difference between
 * installations.
 */

export const API_KEY = 'fake-personal-key-5f1d';
export const API_TOKEN = 'fake-personal-token-9c2e';

/** The forms of `{repo}` that an installation may accept. */
export type ReferenceForm = 'id' | 'full_name_encoded' | 'full_name' | 'name';

/** Options for archives. */
class ArchiveKnobs {
  leadingFolder: string | null = null;
  compression: 'stored' | 'deflated' = 'deflated';
  folderEntries = false;
  zip64 = false;
  dataDescriptors = false;
}

/** The differences between installations, with their defaults. All may be changed while the service runs. */
export class FakeKnobs extends ArchiveKnobs {
  references = new Set<ReferenceForm>(['id', 'full_name_encoded', 'full_name', 'name']);
  /** The response to a reference in an unaccepted form; `html-200` is a single-page application's router. */
  unacceptedReference: 'absent' | 'html-404' | 'html-200' | 'forbidden' | 'unprocessable' = 'absent';
  rows: 'per-branch' | 'latest-only' = 'per-branch';
  /** Whether a workbook's `integration` is the full name or, as some installations have it, the id. */
  integration: 'full_name' | 'id' = 'full_name';
  /** `until-closed`: a body ends where the connection does, as in HTTP/1.0. */
  length: 'content-length' | 'chunked' | 'until-closed' = 'content-length';
  contentEncoding: 'gzip' | null = null;
  next: 'absolute' | 'path' | 'query' | 'other-host' | 'without-prefix' = 'absolute';
  /** The host that `next: 'other-host'` names. */
  otherOrigin = 'http://inner.invalid:8080';
  pageSize = 100;
  pageBeyondEnd: '404' | 'empty' = '404';
  countOffset = 0;
  duplicateRows = false;
  malformedRepositories: unknown[] = [];
  malformedWorkbooks: unknown[] = [];
  /** The status for a key that is not accepted. */
  refusal: 401 | 403 = 401;
  /** Changes the rows of both lists. */
  arrange = (rows: unknown[]): unknown[] => rows;
  /** Full names of repositories with listed workbooks that `/repos` does not list. */
  unlistedIntegrations: string[] = [];
  /** The only path of the list of repositories. */
  repositoriesPath: '/repos' | '/repositories' = '/repos';
  v1: 'on' | '404' | 'html-200' = 'on';
  etag: 'strong' | 'weak' | 'none' = 'none';
  /** Whether `If-None-Match` is honoured. */
  conditional = false;
  absentStatus: 404 | 400 | 204 = 404;
  emptyRepository: 'absent' | 'empty-archive' = 'absent';
  microseconds = true;
  extraFields = false;
  missingFields = false;
  /** Whether rows have the size and digest of their version's file. */
  digests = false;
  /** Headers of every answer; an empty `date` leaves that one out. */
  headers: Record<string, string> = {};
  /** Called after each page, before the next can be requested; counted from 1. */
  afterPage: ((page: number) => void) | null = null;
  /** The contents of a branch, folder or file that differ from the list. */
  contentsOf:
    | ((repository: FakeRepository, branch: string) => ReadonlyMap<string, Buffer> | undefined)
    | null = null;
  /** Fields of a row that differ from the contents. */
  listedAs: ((path: string, branch: string) => Readonly<Record<string, unknown>>) | null = null;
  /** Whether ranges are supported (RFC 9110, section 14). */
  ranges = false;
  /** Whether all pages are made at once, and kept until a file or `digests` changes; other knobs must stay as they are. */
  keepsPages = false;
  /** Called before the contents of a whole branch are read. */
  beforeDownload: ((repository: FakeRepository, branch: string) => void) | null = null;
}

/** A version of a workbook on a branch. */
export interface FakeVersion {
  readonly id: string;
  readonly sequence: number;
  status: string;
  processing: number;
  failure: number;
  /** Replaces the time that follows from the sequence. */
  createdAt?: string;
}

/** A branch with its files; those that look like workbooks have versions. */
export interface FakeBranch {
  readonly files: Map<string, Buffer>;
  readonly versions: Map<string, FakeVersion>;
}

/** A repository of the service. */
export interface FakeRepository {
  readonly id: string;
  name: string;
  fullName: string;
  url: string | null;
  readonly createdAtMs: number;
  defaultBranch: string;
  readonly branches: Map<string, FakeBranch>;
}

/** Whether a request asks for contents: of one repository, by id or name, if there is one. */
export function isForContents(path: string, of?: FakeRepository): boolean {
  const references = of === undefined ? [''] : [of.id, encodeURIComponent(of.fullName)];
  return path.includes('/contents') && references.some((reference) => path.includes(reference));
}

/** A fault of an answer. `after` counts the bytes before the fault. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'html' }
  | { readonly kind: 'json' }
  | { readonly kind: 'body'; readonly body: Buffer; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'pad'; readonly bytes: number }
  | { readonly kind: 'truncate'; readonly keep: number }
  | { readonly kind: 'redirect'; readonly to: string; readonly status?: number }
  /** `reset`: by RST, so that bytes on the way may also be lost. */
  | { readonly kind: 'cut'; readonly after: number; readonly reset?: boolean }
  | { readonly kind: 'length'; readonly delta: number }
  | { readonly kind: 'stall'; readonly after: number }
  /** The start of the body, and the rest after the promise; if that fails, the connection is cut. */
  | { readonly kind: 'wait'; readonly after: number; readonly released: Promise<void> }
  /** The start of the body, and then one piece repeatedly, without end. */
  | { readonly kind: 'endless'; readonly after: number; readonly piece: Buffer }
  /** The body byte by byte. */
  | { readonly kind: 'trickle'; readonly everyMs: number }
  | { readonly kind: 'silence' }
  /** The answer comes after the promise. */
  | { readonly kind: 'delay'; readonly released: Promise<void> }
  /** Exactly these bytes, headers included, and then the end of the connection. */
  | { readonly kind: 'raw'; readonly bytes: Buffer };

/** A request as it arrived. */
export interface RecordedRequest {
  readonly method: string;
  /** Path and query as sent, still encoded. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

const HTML = '<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>';
const CHUNK_BYTES = 8192;
/** A larger body is sent in pieces of this size, as fast as it is read. */
const LARGE_BYTES = 1024 * 1024;
const FIRST_MOMENT_MS = Date.UTC(2026, 0, 2, 3, 4, 5);
const ARCHIVE_TIME = new Date(Date.UTC(2026, 1, 3, 4, 5, 6));

/** Whether the service lists a file as a workbook. */
export function isWorkbook(path: string): boolean {
  return /\.xls[xmb]?$/i.test(path);
}

export class FakeService {
  readonly knobs: FakeKnobs;
  readonly repositories: FakeRepository[] = [];
  readonly requests: RecordedRequest[] = [];
  /** Decides about the fault of an answer; called for every request. */
  fault: ((path: string) => Fault | null) | null = null;
  apiKey = API_KEY;
  apiToken = API_TOKEN;
  /** Further accepted keys. All may be changed at any time. */
  readonly moreKeys = new Set<string>();
  /** Grows with every change; part of the versions in the list. */
  sequence = 0;
  private readonly server;
  readonly #archives = new Map<string, { readonly sizeBytes: number; readonly zip: Promise<Buffer> }>();
  readonly #sockets = new Set<Socket>();
  #kept: { readonly state: string; readonly pages: readonly Reply[] } = { state: '', pages: [] };

  private constructor(knobs: Partial<FakeKnobs>) {
    this.knobs = Object.assign(new FakeKnobs(), knobs);
    this.server = createServer((request, response) => {
      this.#sockets.add(request.socket);
      const { method = '', url = '', headers } = request;
      request.resume();
      this.requests.push({ method, path: url, headers });
      void this.answer({ method, path: url, headers }, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
  }

  /** How many bytes all connections have sent so far. */
  get sentBytes(): number {
    return [...this.#sockets].reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }

  static async start(knobs: Partial<FakeKnobs> = {}): Promise<FakeService> {
    const service = new FakeService(knobs);
    service.server.listen(0, '127.0.0.1');
    await once(service.server, 'listening');
    return service;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get baseUrl(): string {
    return `${this.origin}/api`;
  }

  /** The settings of a mirror of it, as variables without the prefix. */
  settingsFor(directory: string): Record<string, string> {
    return {
      SERVICE_BASE_URL: this.baseUrl,
      SERVICE_API_KEY: this.apiKey,
      SERVICE_API_TOKEN: this.apiToken,
      DIRECTORY: directory,
    };
  }

  /** Makes a repository. A full name with a host makes a Git repository. */
  addRepository(fullName: string, files: Readonly<Record<string, string>> = {}): FakeRepository {
    this.sequence += 1;
    const repository: FakeRepository = {
      id: uuidOf(`${this.sequence} ${fullName}`),
      ...namesOf(fullName),
      createdAtMs: FIRST_MOMENT_MS + this.sequence * 1000,
      defaultBranch: 'main',
      branches: new Map(),
    };
    this.repositories.push(repository);
    for (const [path, content] of Object.entries(files)) this.write(repository, 'main', path, content);
    return repository;
  }

  /** The repository of a full name, or the first one. @throws if there is none */
  named(fullName?: string): FakeRepository {
    const found = this.repositories.find((each) => fullName === undefined || each.fullName === fullName);
    if (found === undefined) throw new Error(`there is no repository ${fullName ?? ''}`);
    return found;
  }

  removeRepository(repository: FakeRepository): void {
    this.repositories.splice(this.repositories.indexOf(repository), 1);
  }

  renameRepository(repository: FakeRepository, fullName: string): void {
    Object.assign(repository, namesOf(fullName));
  }

  /** Writes a file; a workbook gets a new version. */
  write(repository: FakeRepository, branch: string, path: string, content: string | Buffer): void {
    const { files, versions } = this.branch(repository, branch);
    this.sequence += 1;
    files.set(path, typeof content === 'string' ? Buffer.from(content) : content);
    if (!isWorkbook(path)) return;
    const id = createHash('sha1').update(`${this.sequence} ${repository.id} ${branch} ${path}`).digest('hex');
    versions.set(path, { id, sequence: this.sequence, status: 'success', processing: 0, failure: 0 });
  }

  remove(repository: FakeRepository, branch: string, path: string): void {
    const { files, versions } = this.branch(repository, branch);
    files.delete(path);
    versions.delete(path);
  }

  /** Makes a copy of a branch, with the same versions. */
  fork(repository: FakeRepository, from: string, to: string): void {
    const { files, versions } = this.branch(repository, from);
    repository.branches.set(to, {
      files: new Map(files),
      versions: new Map([...versions].map(([path, version]) => [path, { ...version }])),
    });
  }

  version(repository: FakeRepository, branch: string, path: string): FakeVersion {
    const version = repository.branches.get(branch)?.versions.get(path);
    if (version === undefined) throw new Error(`${path} has no version on ${branch}`);
    return version;
  }

  /** Gives a fault to all answers with contents, or to those of one repository. */
  faultContents(fault: Fault, of?: FakeRepository): void {
    this.fault = (path) => (isForContents(path, of) ? fault : null);
  }

  /** Gives a fault to this many answers whose path contains the text. */
  failTimes(part: string, times: number, fault: Fault): void {
    let left = times;
    this.fault = (path) => {
      if (!path.includes(part) || left === 0) return null;
      left -= 1;
      return fault;
    };
  }

  /** The expected trees of a complete mirror, by target; `HEAD` if no branch is known. */
  expectedTrees(): Record<string, ReadonlyMap<string, Buffer>> {
    const trees: Record<string, ReadonlyMap<string, Buffer>> = {};
    for (const repository of this.repositories) {
      const listed = new Set(
        this.knobs.v1 === 'on' ? rowsOf([repository], this.knobs.rows).map(({ branch }) => branch) : [],
      );
      for (const name of listed) {
        trees[`${repository.fullName}/${name.replaceAll('/', '%2F')}`] = filesOf(repository, name);
      }
      if (listed.size > 0) continue;
      const isThere =
        repository.branches.has(repository.defaultBranch) || this.knobs.emptyRepository === 'empty-archive';
      if (isThere) trees[`${repository.fullName}/HEAD`] = filesOf(repository, repository.defaultBranch);
    }
    return trees;
  }

  /** The requests since the last call, as `method path`. */
  takeRequests(): string[] {
    return this.requests.splice(0).map(({ method, path }) => `${method} ${path}`);
  }

  /** The requests for contents since the last call. */
  takeDownloads(): string[] {
    return this.takeRequests().filter((request) => request.includes('/contents'));
  }

  /** Requests with a wrong credential or without the right one. */
  credentialFaults(): string[] {
    return this.requests
      .filter(({ path, headers }) => {
        const isV1 = path.startsWith('/api/v1/');
        const { 'x-api-key': key, authorization: token } = headers;
        return !this.accepts(isV1, isV1 ? token : key) || (isV1 ? key : token) !== undefined;
      })
      .map(({ method, path }) => `${method} ${path}`);
  }

  private accepts(isV1: boolean, credential: string | string[] | undefined): boolean {
    if (typeof credential !== 'string') return false;
    return isV1 ? credential === this.apiToken : credential === this.apiKey || this.moreKeys.has(credential);
  }

  private branch(repository: FakeRepository, name: string): FakeBranch {
    const branch = repository.branches.get(name) ?? { files: new Map(), versions: new Map() };
    repository.branches.set(name, branch);
    return branch;
  }

  private async answer(request: RecordedRequest, response: ServerResponse): Promise<void> {
    const fault = this.fault?.(request.path) ?? null;
    if (fault?.kind === 'silence') return;
    if (fault?.kind === 'raw') return void response.socket?.end(fault.bytes);
    if (fault?.kind === 'delay') await fault.released;
    const whole = await this.reply(request);
    const reply = this.knobs.ranges ? partOf(whole, request.headers) : whole;
    this.send(response, fault === null ? reply : faulty(reply, fault), fault);
  }

  private send(response: ServerResponse, { status, headers, body }: Reply, fault: Fault | null): void {
    if (status === 304) {
      response.writeHead(304, headers).end();
      return;
    }
    const delta = fault?.kind === 'length' ? fault.delta : 0;
    const isExact = this.knobs.length === 'content-length' && fault?.kind !== 'endless';
    const hasLength = isExact || fault?.kind === 'length';
    const length = hasLength ? { 'content-length': String(body.length + delta) } : {};
    const { date, ...others } = this.knobs.headers;
    response.sendDate = date === undefined;
    if (this.knobs.length === 'until-closed') response.useChunkedEncodingByDefault = false;
    const clock = date === undefined || date === '' ? {} : { date };
    response.writeHead(status, { ...headers, ...others, ...clock, ...length });
    response.flushHeaders();
    sendBody(response, body, fault);
  }

  private async reply(request: RecordedRequest): Promise<Reply> {
    // By hand: a URL parser would resolve the path, but tests must see it as it came.
    const [pathname = '', ...query] = request.path.split('?');
    const search = query.join('?');
    const isV1 = pathname.startsWith('/api/v1/');
    const credential = isV1 ? request.headers.authorization : request.headers['x-api-key'];
    if (!pathname.startsWith('/api/')) return html(404);
    if (isV1 && this.knobs.v1 !== 'on') return html(this.knobs.v1 === 'html-200' ? 200 : 404);
    if (!this.accepts(isV1, credential)) return json(this.knobs.refusal, { detail: 'not authenticated' });
    const list = `/api${this.knobs.repositoriesPath}`;
    if (pathname === list) return json(200, this.repositoryList());
    if (pathname === '/api/v1/workbooks') return this.page(new URLSearchParams(search));
    const contents = pathname.startsWith(`${list}/`)
      ? /^\/(?<reference>.+?)\/contents(?:\/(?<inner>.*))?$/.exec(pathname.slice(list.length))?.groups
      : undefined;
    if (contents === undefined) return json(404, { detail: 'no such page' });
    return this.contents(contents['reference'] ?? '', contents['inner'] ?? '', search, request.headers);
  }

  private repositoryList(): unknown[] {
    const { microseconds, missingFields, extraFields } = this.knobs;
    const rows = this.repositories.map((repository) => ({
      id: repository.id,
      name: repository.name,
      full_name: repository.fullName,
      ...(missingFields
        ? {}
        : { url: repository.url, created_at: instant(repository.createdAtMs, microseconds) }),
      ...(extraFields ? { owner: { id: 7 }, archived: false, tags: [] } : {}),
    }));
    return this.knobs.arrange([...rows, ...this.knobs.malformedRepositories]);
  }

  private page(query: URLSearchParams): Reply {
    const number = Number(query.get('page') ?? 1);
    const reply = this.knobs.keepsPages ? this.keptPage(number) : this.pageOf(this.workbookRows(), number);
    if (reply.status === 200) this.knobs.afterPage?.(number);
    return reply;
  }

  private keptPage(number: number): Reply {
    const state = `${this.sequence} with ${this.knobs.digests}`;
    if (this.#kept.state !== state) {
      const rows = this.workbookRows();
      const pages = [this.pageOf(rows, 1)];
      while (pages.length * this.knobs.pageSize < rows.length)
        pages.push(this.pageOf(rows, pages.length + 1));
      this.#kept = { state, pages };
    }
    return this.#kept.pages[number - 1] ?? this.pageOf([], number);
  }

  private pageOf(rows: readonly unknown[], number: number): Reply {
    const { pageSize, countOffset, pageBeyondEnd } = this.knobs;
    const start = (number - 1) * pageSize;
    if (number > 1 && start >= rows.length && pageBeyondEnd === '404') {
      return json(404, { detail: 'Invalid page.' });
    }
    const hasNext = start + pageSize < rows.length;
    return json(200, {
      count: rows.length + countOffset,
      next: hasNext ? this.pageReference(number + 1) : null,
      ...(this.knobs.missingFields ? {} : { previous: null }),
      results: rows.slice(start, start + pageSize),
    });
  }

  private pageReference(page: number): string {
    const { next, otherOrigin } = this.knobs;
    const starts = {
      absolute: `${this.baseUrl}/v1/workbooks`,
      path: '/api/v1/workbooks',
      query: '',
      'other-host': `${otherOrigin}/api/v1/workbooks`,
      'without-prefix': '/v1/workbooks',
    };
    return `${starts[next]}?page=${page}`;
  }

  private workbookRows(): unknown[] {
    const { knobs } = this;
    const rows = rowsOf(this.repositories, knobs.rows).map(({ repository, branch, path, version }) => {
      const integration = knobs.integration === 'id' ? repository.id : repository.fullName;
      const row = workbookRow(integration, branch, path, version, knobs);
      const bytes = repository.branches.get(branch)?.files.get(path);
      if (knobs.digests && bytes !== undefined)
        Object.assign(row, {
          file: {
            size: bytes.length,
            type: 'xlsx',
            digest: digestOf(bytes),
            created_at: instant(FIRST_MOMENT_MS, false),
          },
        });
      return Object.assign(row, knobs.listedAs?.(path, branch));
    });
    const ghosts = knobs.unlistedIntegrations.map((integration) => {
      const version = { id: 'e'.repeat(40), sequence: 1, status: 'success', processing: 0, failure: 0 };
      return workbookRow(integration, 'main', 'ghost.xlsx', version, knobs);
    });
    const doubled = knobs.duplicateRows ? rows.slice(0, 1) : [];
    return knobs.arrange([...rows, ...doubled, ...ghosts, ...knobs.malformedWorkbooks]);
  }

  private async contents(
    reference: string,
    inner: string,
    search: string,
    headers: IncomingHttpHeaders,
  ): Promise<Reply> {
    const { knobs } = this;
    const repository = this.resolve(reference);
    if (repository === 'unaccepted') return this.unaccepted();
    if (repository === null) return this.absent();
    const branch = new URLSearchParams(search).get('branch') ?? repository.defaultBranch;
    if (inner === '') knobs.beforeDownload?.(repository, branch);
    const isEmpty = repository.branches.size === 0 && knobs.emptyRepository === 'empty-archive';
    const files = isEmpty
      ? new Map<string, Buffer>()
      : (knobs.contentsOf?.(repository, branch) ?? repository.branches.get(branch)?.files);
    if (files === undefined) return this.absent();
    const path = decodeURIComponent(inner).replace(/\/$/, '');
    const file = files.get(path);
    if (file !== undefined) return encoded(knobs, 'application/octet-stream', file);
    const below = new Map([...files].filter(([name]) => path === '' || name.startsWith(`${path}/`)));
    if (path !== '' && below.size === 0) return this.absent();
    return this.archive(below, headers);
  }

  private async archive(files: ReadonlyMap<string, Buffer>, headers: IncomingHttpHeaders): Promise<Reply> {
    const { etag, conditional } = this.knobs;
    const digest = treeDigest(files);
    const tag = `${etag === 'weak' ? 'W/' : ''}"${digest.slice(0, 20)}"`;
    const tags: Record<string, string> = etag === 'none' ? {} : { etag: tag };
    if (conditional && tags['etag'] !== undefined && headers['if-none-match'] === tag) {
      return { status: 304, headers: tags, body: Buffer.alloc(0) };
    }
    const reply = encoded(this.knobs, 'application/zip', await this.archiveOf(files, digest));
    return { ...reply, headers: { ...reply.headers, ...tags } };
  }

  /** Repeated requests get the latest archives again. */
  private archiveOf(files: ReadonlyMap<string, Buffer>, digest: string): Promise<Buffer> {
    const { leadingFolder, compression, folderEntries, zip64, dataDescriptors } = this.knobs;
    const key = [digest, leadingFolder, compression, folderEntries, zip64, dataDescriptors].join(' ');
    const sizeBytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
    const archive = this.#archives.get(key) ?? { sizeBytes, zip: zipOf(files, this.knobs) };
    this.#archives.delete(key);
    this.#archives.set(key, archive);
    let keptBytes = 0;
    for (const [index, [each, kept]] of [...this.#archives].toReversed().entries()) {
      keptBytes += kept.sizeBytes;
      if (index === MOST_ARCHIVES || (index > 0 && keptBytes > MOST_ARCHIVE_BYTES))
        this.#archives.delete(each);
    }
    return archive.zip;
  }

  private absent(): Reply {
    return json(this.knobs.absentStatus, { detail: 'Not found.' });
  }

  private unaccepted(): Reply {
    const replies = {
      absent: this.absent(),
      'html-404': html(404),
      'html-200': html(200),
      forbidden: json(403, { detail: 'No such repository, or none of yours.' }),
      unprocessable: json(422, { detail: 'The repository is malformed.' }),
    };
    return replies[this.knobs.unacceptedReference];
  }

  /** The repository of a reference. A shared short name means the first one, which is a trap. */
  private resolve(reference: string): FakeRepository | 'unaccepted' | null {
    const { references } = this.knobs;
    const isRaw = reference.includes('/');
    const text = isRaw
      ? reference.split('/').map(decodeURIComponent).join('/')
      : decodeURIComponent(reference);
    const isFull = references.has(isRaw ? 'full_name' : 'full_name_encoded');
    const found = this.repositories.find(
      ({ id, fullName, name }) =>
        (!isRaw && references.has('id') && id === text) ||
        (isFull && fullName === text) ||
        (!isRaw && references.has('full_name') && fullName === text && !text.includes('/')) ||
        (!isRaw && references.has('name') && name === text),
    );
    if (found !== undefined) return found;
    const isKnown = this.repositories.some(({ id, fullName, name }) => [id, fullName, name].includes(text));
    return isKnown ? 'unaccepted' : null;
  }
}

function namesOf(fullName: string) {
  const isGit = fullName.includes('/');
  const last = fullName.slice(fullName.lastIndexOf('/') + 1);
  return {
    name: isGit ? last.replace(/\.git$/, '') : last,
    fullName,
    url: isGit ? `https://${fullName}` : null,
  };
}

function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
}

function filesOf(repository: FakeRepository, branch: string): ReadonlyMap<string, Buffer> {
  return new Map(repository.branches.get(branch)?.files);
}

/** The listed versions, each with its place. */
function rowsOf(repositories: readonly FakeRepository[], mode: FakeKnobs['rows']) {
  return repositories.flatMap((repository) => {
    const all = [...repository.branches].flatMap(([branch, { versions }]) =>
      [...versions].map(([path, version]) => ({ repository, branch, path, version })),
    );
    if (mode === 'per-branch') return all;
    return [...Map.groupBy(all, ({ path }) => path).values()].map((rows) =>
      rows.reduce((one, other) => (one.version.sequence < other.version.sequence ? other : one)),
    );
  });
}

function workbookRow(
  integration: string,
  branch: string,
  path: string,
  version: FakeVersion,
  { missingFields, extraFields }: FakeKnobs,
): object {
  const optional = {
    author: 'Änne Größe',
    action: 'modify',
    created_at: version.createdAt ?? instant(versionTimeMs(version), false),
    message: `Version ${version.sequence}\n`,
    parent: { id: 'a'.repeat(40) },
  };
  const isStatusNeeded = version.status !== 'success' || version.processing > 0 || version.failure > 0;
  const status = { processing: version.processing, failure: version.failure };
  return {
    type: 'workbook',
    id: `${integration}/${path}`,
    name: `/${path}`,
    integration,
    version: {
      id: version.id,
      branch,
      ...(missingFields && !isStatusNeeded ? {} : { status: version.status }),
      ...(missingFields ? {} : optional),
      ...(extraFields ? { url: `/raw/${'0'.repeat(64)}/x_0000000.xlsx`, content: { sheets: 3 } } : {}),
    },
    ...(missingFields && !isStatusNeeded ? {} : { status }),
    ...(missingFields ? {} : { display_name: path.split('/').at(-1) }),
    ...(extraFields ? { created_at: instant(FIRST_MOMENT_MS, false), file: { type: 'xlsm' } } : {}),
  };
}

const digests = new WeakMap<Buffer, string>();

/** The SHA-256 of bytes that never change, computed once. */
function digestOf(bytes: Buffer): string {
  const digest = digests.get(bytes) ?? createHash('sha256').update(bytes).digest('hex');
  digests.set(bytes, digest);
  return digest;
}

/** A digest of paths and contents, in any order of the paths. */
function treeDigest(files: ReadonlyMap<string, Buffer>): string {
  const hash = createHash('sha256');
  for (const [path, bytes] of [...files].sort(([one], [other]) => (one < other ? -1 : 1)))
    hash.update(`${path}\0`).update(digestOf(bytes));
  return hash.digest('hex');
}

/** The time of a version: a second later for every change of the service. */
export function versionTimeMs(version: Pick<FakeVersion, 'sequence'>): number {
  return FIRST_MOMENT_MS + version.sequence * 1000;
}

function instant(timeMs: number, microseconds: boolean): string {
  const seconds = new Date(timeMs).toISOString().slice(0, 19);
  return `${seconds}${microseconds ? '.123456' : ''}+00:00`;
}

function json(status: number, value: unknown): Reply {
  const headers = { 'content-type': 'application/json' };
  return { status, headers, body: Buffer.from(JSON.stringify(value)) };
}

function html(status: number): Reply {
  return { status, headers: { 'content-type': 'text/html; charset=utf-8' }, body: Buffer.from(HTML) };
}

function encoded({ contentEncoding }: FakeKnobs, type: string, body: Buffer): Reply {
  const headers = { 'content-type': type };
  if (contentEncoding === null) return { status: 200, headers, body };
  return { status: 200, headers: { ...headers, 'content-encoding': contentEncoding }, body: gzipSync(body) };
}

/** The requested part of a body; the whole body if its state has changed. */
function partOf(reply: Reply, headers: IncomingHttpHeaders): Reply {
  const { etag } = reply.headers;
  const [, first = '', last = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  if (reply.status !== 200 || first === '' || (headers['if-range'] ?? etag) !== etag) return reply;
  const size = reply.body.length;
  const end = last === '' ? size : Math.min(Number(last) + 1, size);
  const range = { 'content-range': `bytes ${first}-${end - 1}/${size}` };
  return {
    status: 206,
    headers: { ...reply.headers, ...range },
    body: reply.body.subarray(Number(first), end),
  };
}

function sendBody(response: ServerResponse, body: Buffer, fault: Fault | null): void {
  switch (fault?.kind) {
    case 'stall':
      response.write(body.subarray(0, fault.after));
      return;
    case 'wait':
      response.write(body.subarray(0, fault.after));
      void fault.released.then(
        () => response.end(body.subarray(fault.after)),
        () => response.destroy(),
      );
      return;
    case 'cut': {
      const { socket } = response;
      const end = (): unknown => (fault.reset === true ? socket?.resetAndDestroy() : socket?.destroy());
      response.write(body.subarray(0, fault.after), end);
      return;
    }
    case 'endless':
      response.write(body.subarray(0, fault.after));
      sendForEver(response, fault.piece);
      return;
    case 'trickle':
      sendSlowly(response, body, fault.everyMs);
      return;
    case 'length':
      response.write(body, () => response.socket?.destroySoon());
      return;
    default:
      Readable.from(piecesOf(body)).pipe(response);
  }
}

function* piecesOf(body: Buffer): Generator<Buffer> {
  const sizeBytes = body.length > LARGE_BYTES ? LARGE_BYTES : CHUNK_BYTES;
  for (let at = 0; at < body.length; at += sizeBytes) yield body.subarray(at, at + sizeBytes);
}

function sendForEver(response: ServerResponse, piece: Buffer): void {
  const more = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', more);
  more();
}

function sendSlowly(response: ServerResponse, body: Buffer, everyMs: number): void {
  let at = 0;
  const timer = setInterval(() => {
    response.write(body.subarray(at, at + 1));
    at += 1;
  }, everyMs);
  response.on('close', () => clearInterval(timer));
}

/** The whole answer with a fault; other faults are about how it is sent. */
function faulty(reply: Reply, fault: Fault): Reply {
  switch (fault.kind) {
    case 'status':
      return { ...json(fault.status, { detail: 'no' }), headers: { ...fault.headers } };
    case 'html':
      return html(200);
    case 'json':
      return json(200, { error: 'The repository is locked.' });
    case 'body':
      return { status: 200, headers: { ...reply.headers, ...fault.headers }, body: fault.body };
    case 'pad':
      return { ...reply, body: Buffer.concat([reply.body, Buffer.alloc(fault.bytes, '#')]) };
    case 'truncate':
      return { ...reply, body: reply.body.subarray(0, fault.keep) };
    case 'redirect':
      return { status: fault.status ?? 302, headers: { location: fault.to }, body: Buffer.alloc(0) };
    default:
      return reply;
  }
}

/** The limits of the kept archives; the latest one stays in any case. */
const MOST_ARCHIVES = 16;
const MOST_ARCHIVE_BYTES = 512 * 1024 ** 2;

/** A zip archive like those of a service. */
export async function zipOf(
  files: ReadonlyMap<string, Buffer>,
  knobs: ArchiveKnobs = new ArchiveKnobs(),
): Promise<Buffer> {
  const zip = new ZipFile();
  const prefix = knobs.leadingFolder === null ? '' : `${knobs.leadingFolder}/`;
  const folders = new Set<string>();
  const options = {
    mtime: ARCHIVE_TIME,
    mode: 0o100644,
    compress: knobs.compression === 'deflated',
    forceZip64Format: knobs.zip64,
  };
  for (const [path, bytes] of files) {
    const name = prefix + path;
    for (const { index } of knobs.folderEntries ? name.matchAll(/\//g) : []) {
      const folder = name.slice(0, index + 1);
      if (!folders.has(folder)) zip.addEmptyDirectory(folder, { mtime: ARCHIVE_TIME, mode: 0o040755 });
      folders.add(folder);
    }
    if (knobs.dataDescriptors) zip.addReadStream(Readable.from([bytes]), name, options);
    else zip.addBuffer(bytes, name, options);
  }
  zip.end({ forceZip64Format: knobs.zip64, comment: '' });
  const chunks: Buffer[] = [];
  for await (const chunk of zip.outputStream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
