import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, statSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';

import { type EntryPlace, replaceEntry, writeArchive } from './archive-file.ts';
import {
  type BenchFile,
  type BenchRepository,
  contentOf,
  repositoriesOf,
  versionTimeMs,
} from './data-set.ts';
import { createFaults } from './faults.ts';
import type { Command, Knobs, Told } from './service.ts';

/**
 * The service that everything is measured against, in a process of its own: it serves archives that lie ready on disk,
 * and lists that lie ready in memory, so that what is measured is who asks. It speaks the whole reading part of the API,
 * asks for no key, and does as its parent commands.
 */

const PAGE_ROWS = 500;
const READ_BYTES = 1024 * 1024;

/** A branch of a repository with its archive. */
interface Held {
  readonly repository: BenchRepository;
  readonly archivePath: string;
  readonly places: readonly EntryPlace[];
  readonly byPath: ReadonlyMap<string, number>;
  readonly digests: string[];
  changes: number;
}

const held: Held[] = [];
let knobs: Knobs = { hasFileFacts: true, isConditional: true, fault: null };
let faults = createFaults(null);
let pages: Buffer[] | null = null;
let requests = 0;
let closedBytes = 0;
const sockets = new Set<Socket>();

function open(folder: string, repository: BenchRepository, index: number): Held {
  const archivePath = join(folder, `${index}.zip`);
  const digests: string[] = [];
  const places = writeArchive(
    archivePath,
    (function* packables() {
      for (const file of repository.files) {
        const content = contentOf(file);
        digests.push(digestOf(content));
        yield { path: file.path, packing: file.packing, content, modifiedAtMs: versionTimeMs(file.version) };
      }
    })(),
  );
  const byPath = new Map(repository.files.map(({ path }, at) => [path, at]));
  return { repository, archivePath, places, byPath, digests, changes: 0 };
}

function digestOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

function versionIdOf(file: BenchFile): string {
  return createHash('sha1').update(`${file.seed} ${file.version}`).digest('hex');
}

/** Makes a new version of files, of the same length. @returns how many bytes they hold */
function change(at: number, paths: readonly string[]): number {
  const branch = held[at];
  if (branch === undefined) throw new RangeError(`there is no repository ${at}`);
  let changedBytes = 0;
  for (const path of paths) {
    const index = branch.byPath.get(path) ?? -1;
    const [file, place] = [branch.repository.files[index], branch.places[index]];
    if (file === undefined || place === undefined) throw new RangeError(`there is no file ${path}`);
    file.version += 1;
    const content = contentOf(file);
    branch.digests[index] = digestOf(content);
    const { packing } = file;
    replaceEntry(branch.archivePath, place, {
      path,
      packing,
      content,
      modifiedAtMs: versionTimeMs(file.version),
    });
    changedBytes += content.length;
  }
  branch.changes += 1;
  pages = null;
  return changedBytes;
}

function rowOf({ repository: { fullName, branch }, digests }: Held, file: BenchFile, index: number): unknown {
  const createdAt = new Date(versionTimeMs(file.version)).toISOString().replace('.000Z', '+00:00');
  return {
    type: 'workbook',
    id: `${fullName}/${file.path}`,
    name: `/${file.path}`,
    display_name: file.path.slice(file.path.lastIndexOf('/') + 1),
    integration: fullName,
    version: {
      id: versionIdOf(file),
      author: 'Ada Lovelace',
      action: 'modify',
      created_at: createdAt,
      message: 'Update the plan\n',
      status: 'success',
      branch,
      parent: { id: versionIdOf({ ...file, version: file.version - 1 }) },
    },
    status: { processing: 0, failure: 0 },
    ...(knobs.hasFileFacts
      ? { file: { size: file.sizeBytes, type: 'xlsx', digest: digests[index], created_at: createdAt } }
      : {}),
  };
}

function makePages(origin: string): Buffer[] {
  const rows = held.flatMap((each) => each.repository.files.map((file, index) => rowOf(each, file, index)));
  const address = (page: number): string | null =>
    page < 1 || page > count ? null : `${origin}/api/v1/workbooks?page=${page}`;
  const count = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
  return Array.from({ length: count }, (_, index) =>
    Buffer.from(
      JSON.stringify({
        count: rows.length,
        next: address(index + 2),
        previous: address(index),
        results: rows.slice(index * PAGE_ROWS, (index + 1) * PAGE_ROWS),
      }),
    ),
  );
}

function repositoryList(): Buffer {
  const listed = new Map(
    held.map(({ repository: { id, name, fullName, url } }) => [id, { id, name, fullName, url }]),
  );
  return Buffer.from(
    JSON.stringify(
      [...listed.values()].map(({ id, name, fullName, url }) => ({
        id,
        name,
        full_name: fullName,
        url,
        created_at: '2026-01-02T03:04:05.000006+00:00',
      })),
    ),
  );
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  requests += 1;
  const origin = `http://${request.headers.host ?? ''}`;
  const url = new URL(request.url ?? '/', origin);
  if (faults.answers(request, url, response)) return;
  if (url.pathname === '/api/repos') sendJson(response, repositoryList());
  else if (url.pathname === '/api/v1/workbooks') {
    pages ??= makePages(origin);
    const page = pages[Number(url.searchParams.get('page') ?? 1) - 1];
    if (page === undefined) sendNothing(response, 404);
    else sendJson(response, page);
  } else sendContents(request, url, response);
}

function sendJson(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
}

function sendNothing(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': 2 }).end('{}');
}

function sendContents(request: IncomingMessage, url: URL, response: ServerResponse): void {
  const [, reference = '', path = ''] =
    /^\/api\/repos\/([^/]+)\/contents(?:\/(.*))?$/.exec(url.pathname) ?? [];
  const name = decodeURIComponent(reference);
  const branch = url.searchParams.get('branch');
  const found = held.find(
    ({ repository }) =>
      [repository.id, repository.fullName].includes(name) &&
      (branch === null || branch === repository.branch),
  );
  if (found === undefined) {
    sendNothing(response, 404);
    return;
  }
  if (path === '') {
    const sizeBytes = statSync(found.archivePath).size;
    const etag = `"${found.repository.id}-${found.changes}"`;
    const facts = { etag, sizeBytes, type: 'application/zip', name: found.repository.fullName };
    send(request, response, facts, (start, end) =>
      createReadStream(found.archivePath, { start, end, highWaterMark: READ_BYTES }),
    );
    return;
  }
  const file = found.repository.files[found.byPath.get(decodeURIComponent(path)) ?? -1];
  if (file === undefined) {
    sendNothing(response, 404);
    return;
  }
  const facts = {
    etag: `"${versionIdOf(file)}"`,
    sizeBytes: file.sizeBytes,
    type: 'application/octet-stream',
    name: path,
  };
  send(request, response, facts, (start, end) => contentOf(file).subarray(start, end + 1));
}

interface Facts {
  readonly etag: string;
  readonly sizeBytes: number;
  readonly type: string;
  /** What faults are told of. */
  readonly name: string;
}

/** The first and the last byte that are asked for; null where the whole is. */
function rangeOf(headers: IncomingHttpHeaders, etag: string, sizeBytes: number): [number, number] | null {
  if ((headers['if-range'] ?? etag) !== etag) return null;
  const [, first, last = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  if (first === undefined) return null;
  return [Number(first), last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1)];
}

/** Answers conditions and ranges (RFC 9110, sections 13 and 14) as far as clients of archives use them. */
function send(
  { headers, method }: IncomingMessage,
  response: ServerResponse,
  { etag, sizeBytes, type, name }: Facts,
  read: (start: number, end: number) => Buffer | NodeJS.ReadableStream,
): void {
  if (knobs.isConditional && headers['if-none-match'] === etag) {
    response.writeHead(304, { etag }).end();
    return;
  }
  if ((headers['if-match'] ?? etag) !== etag) {
    sendNothing(response, 412);
    return;
  }
  const range = rangeOf(headers, etag, sizeBytes);
  const [start, end] = range ?? [0, sizeBytes - 1];
  if (range !== null && start > end) {
    response.writeHead(416, { 'content-range': `bytes */${sizeBytes}` }).end();
    return;
  }
  response.writeHead(range === null ? 200 : 206, {
    'content-type': type,
    'content-length': end - start + 1,
    'accept-ranges': 'bytes',
    etag,
    ...(range === null ? {} : { 'content-range': `bytes ${start}-${end}/${sizeBytes}` }),
  });
  if (method === 'HEAD' || sizeBytes === 0) {
    response.end();
    return;
  }
  const body = read(start, end);
  if (faults.sends(response, name, sizeBytes, body)) return;
  if (Buffer.isBuffer(body)) response.end(body);
  else body.pipe(response);
}

function doAs(command: Command): Told['value'] {
  switch (command.kind) {
    case 'change': {
      return change(command.at, command.paths);
    }
    case 'set': {
      knobs = { ...knobs, ...command.knobs };
      if (command.knobs.fault !== undefined) faults = createFaults(command.knobs.fault);
      pages = null;
      return null;
    }
    case 'count': {
      let sentBytes = closedBytes;
      for (const socket of sockets) sentBytes += socket.bytesWritten;
      return { requests, sentBytes };
    }
    case 'open': {
      mkdirSync(command.folder, { recursive: true });
      held.push(...repositoriesOf(command.spec).map((each, index) => open(command.folder, each, index)));
      return (server.address() as AddressInfo).port;
    }
  }
}

const server = createServer(answer);
server.keepAliveTimeout = 60_000;
server.on('connection', (socket) => {
  sockets.add(socket);
  socket.once('close', () => {
    sockets.delete(socket);
    closedBytes += socket.bytesWritten;
  });
});
server.listen(0, '127.0.0.1', () => {
  process.on('message', (command: Command) => process.send?.({ id: command.id, value: doAs(command) }));
  process.on('disconnect', () => process.exit());
  process.send?.({ id: 0, value: null });
});
