import { z } from 'zod';

import type { Reply } from '../../lib/http/reply.ts';
import { bodyOf, readJson } from '../../lib/http/request-body.ts';
import { invalid, RequestError, tooLarge } from '../../lib/http/request-error.ts';
import type { Bytes, Changes, Library, Repository } from './library.ts';
import { jsonReply } from './replies.ts';
import { findRepository } from './repository-reference.ts';
import type { ServiceRequest } from './request.ts';

/** Enough for some ten thousand files in one upload. */
const COMMIT_LIMIT_BYTES = 8 * 1024 * 1024;

const target = {
  branch: z.string(),
  seenCommitId: z.string().nullable(),
  startFrom: z.string().nullable(),
};
const checkSchema = z.strictObject({ ...target, paths: z.array(z.string()) });
const commitSchema = z.strictObject({
  ...target,
  message: z.string(),
  files: z.array(z.strictObject({ path: z.string(), blobId: z.string() })),
});

interface Asked {
  readonly changes: Changes;
  readonly repository: Repository;
  readonly author: string;
  readonly request: ServiceRequest;
}

interface Endpoint {
  readonly method: 'GET' | 'POST';
  readonly answer: (asked: Asked) => Promise<Reply>;
}

/** The requests about one repository, by the last segment of the path. */
const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map<string, Endpoint>([
  ['branches', { method: 'GET', answer: answerBranches }],
  ['folder', { method: 'GET', answer: answerFolder }],
  ['checks', { method: 'POST', answer: answerCheck }],
  ['files', { method: 'POST', answer: answerFile }],
  ['commits', { method: 'POST', answer: answerCommit }],
]);

/**
 * Answers the page for uploads: lists repositories, branches and folders, receives files one by one, and commits those that belong
 * together.
 *
 * The key travels in a header that no page of another origin can send (Fetch, "CORS-preflight fetch"), so that such a page can
 * change nothing in its reader's name.
 * @param author the name of the key
 * @param segments of the path below `/uploads`, decoded
 * @throws RequestError 404 for what does not exist; 400, 409 and 413 for what cannot be taken
 */
export async function answerUploads(
  library: Library,
  changes: Changes,
  author: string,
  segments: readonly string[],
  request: ServiceRequest,
): Promise<Reply> {
  const [collection, id, what = '', ...rest] = segments;
  if (collection !== 'repositories' || rest.length > 0) throw notFound(request);
  if (id === undefined) {
    checkMethod('GET', request);
    return answerRepositories(await library.repositories(), changes);
  }
  const endpoint = ENDPOINTS.get(what);
  if (endpoint === undefined) throw notFound(request);
  checkMethod(endpoint.method, request);
  const repository = findRepository(await library.repositories(), id);
  if (repository === undefined)
    throw new RequestError(404, 'repository_not_found', `there is no repository ${id}`);
  if (endpoint.method === 'POST') checkKind(repository);
  return endpoint.answer({ changes, repository, author, request });
}

function notFound({ path }: ServiceRequest): RequestError {
  return new RequestError(404, 'not_found', `there is nothing at ${path}`);
}

function checkMethod(allowed: Endpoint['method'], { method }: ServiceRequest): void {
  if (method === allowed || (allowed === 'GET' && method === 'HEAD')) return;
  const allow = allowed === 'GET' ? 'GET, HEAD' : allowed;
  throw new RequestError(405, 'method_not_allowed', `this path takes ${allow} only`, { allow });
}

/** Only drag-and-drop repositories take files (service specification, section 1); they have no address. */
function takesFiles({ url }: Repository): boolean {
  return url === null;
}

function checkKind(repository: Repository): void {
  if (takesFiles(repository)) return;
  throw new RequestError(
    409,
    'external',
    `${repository.full_name} is connected to an external Git repository: commit to that one, and it will be here`,
  );
}

function answerRepositories(repositories: readonly Repository[], { maxUploadBytes }: Changes): Reply {
  return fresh(200, {
    maxUploadBytes,
    repositories: repositories.map((repository) => ({
      id: repository.id,
      name: repository.name,
      full_name: repository.full_name,
      url: repository.url,
      takesFiles: takesFiles(repository),
    })),
  });
}

async function answerBranches({ changes, repository }: Asked): Promise<Reply> {
  return fresh(200, await changes.branches(repository.id));
}

async function answerFolder({ changes, repository, request }: Asked): Promise<Reply> {
  const commitId = request.query.get('commit');
  if (commitId === null) throw invalid('the query must name the commit: ?commit=…&path=…');
  const path = request.query.get('path') ?? '';
  return fresh(200, { entries: await changes.folder(repository.id, commitId, path) });
}

async function answerFile({ changes, repository, request }: Asked): Promise<Reply> {
  const { maxUploadBytes } = changes;
  if (Number(request.headers['content-length'] ?? 0) > maxUploadBytes)
    throw tooLarge(`a file may have ${maxUploadBytes} bytes`);
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw new RequestError(415, 'invalid', `send the file as it is, not in the encoding ${encoding}`);
  let sizeBytes = 0;
  async function* counted(): Bytes {
    for await (const chunk of bodyOf(request.body)) {
      sizeBytes += chunk.length;
      yield chunk;
    }
  }
  const blobId = await changes.receive(repository.id, counted());
  return fresh(201, { blobId, sizeBytes });
}

/** Reads what a request says of an upload. @throws RequestError 400, 413 */
async function readUpload<Read>(schema: z.ZodType<Read>, { body }: ServiceRequest): Promise<Read> {
  const parsed = schema.safeParse(await readJson(bodyOf(body), COMMIT_LIMIT_BYTES));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? 'the body' : issue.path.join('.');
  throw invalid(`${where}: ${describeIssue(issue)}`);
}

function describeIssue(issue: z.core.$ZodIssue | undefined): string {
  if (issue === undefined) return 'is not an upload';
  if (!issue.message.endsWith('received undefined')) return issue.message;
  const [field] = issue.path;
  const isNullable = field === 'seenCommitId' || field === 'startFrom';
  return isNullable ? 'is missing: give a text, or null for none' : 'is missing';
}

async function answerCheck({ changes, repository, request }: Asked): Promise<Reply> {
  return fresh(200, await changes.check(repository.id, await readUpload(checkSchema, request)));
}

async function answerCommit({ changes, repository, author, request }: Asked): Promise<Reply> {
  const upload = await readUpload(commitSchema, request);
  const commitId = await changes.commit(repository.id, { ...upload, author });
  return fresh(201, { commitId });
}

/** An answer that nobody keeps: branches move. */
function fresh(status: number, body: unknown): Reply {
  return jsonReply(status, body, { 'cache-control': 'no-store' });
}
