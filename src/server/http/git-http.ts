import { createGunzip } from 'node:zlib';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { basicPair } from '../../lib/http/access.ts';
import { plainBody } from '../../lib/http/buffered-body.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { bodyOf } from '../../lib/http/request-body.ts';
import { RequestError, tooLarge } from '../../lib/http/request-error.ts';
import { findKey, type KnownKey } from './keys.ts';
import type { Bytes, Changes, GitProgram, Library, Repository } from './library.ts';
import { FLUSH, packetLine } from './packets.ts';
import { COMMANDS_LIMIT_BYTES, hasStrangeName, readPush, refusedPush } from './push-commands.ts';
import { findGitRepository } from './repository-reference.ts';
import type { ServiceRequest } from './request.ts';
import { decodeSegments, type Route } from './routes.ts';

type GitRoute = Extract<Route, { kind: 'git' }>;

const PROGRAMS: readonly GitProgram[] = ['git-upload-pack', 'git-receive-pack'];

/** More than the names of all commits that a client may have, and little enough for anybody's memory. */
const WANTS_LIMIT_BYTES = 64 * 1024 * 1024;

/** As git's own server says it (gitprotocol-http(5), "the response is not to be cached"). */
const NEVER_CACHED: Readonly<Record<string, string>> = {
  'cache-control': 'no-cache, max-age=0, must-revalidate',
  expires: 'Fri, 01 Jan 1980 00:00:00 GMT',
  pragma: 'no-cache',
};

/** Says whether a client asks for version 2 of Git's protocol (gitprotocol-v2(5), "HTTP Transport"). */
export function wantsVersion2(protocol: string | null): boolean {
  return protocol?.split(':').includes('version=2') ?? false;
}

/**
 * Reads the password of HTTP Basic (RFC 7617); the name of the user does not matter.
 * @returns null when there is none
 */
export function basicPassword(header: string | undefined): string | null {
  const pair = basicPair(header) ?? '';
  return pair.includes(':') ? pair.slice(pair.indexOf(':') + 1) : null;
}

/**
 * Checks that a git client sends a personal key, as the password of HTTP Basic.
 * @returns the key
 * @throws RequestError 401 without a personal key, 403 with one for other things
 */
export function authoriseGit(authorization: string | undefined, keys: readonly KnownKey[]): KnownKey {
  const password = basicPassword(authorization);
  const key = password === null ? null : findKey(keys, password);
  if (key?.kind === 'personal') return key;
  if (key !== null)
    throw new RequestError(403, 'group_key', 'this key is not for Git: use a personal API key');
  const problem = password === null ? 'a password is needed' : 'the password is not valid';
  const message = `${problem}: it is a personal API key; the user name can be any`;
  throw new RequestError(401, 'unauthorized', message, {
    'www-authenticate': 'Basic realm="workbook service", charset="UTF-8"',
  });
}

/** A refusal as git clients take it: they show their user plain text, and nothing else. */
export function gitRefusal({ status, message, headers }: RequestError): Reply {
  return {
    status,
    headers: { ...NEVER_CACHED, ...headers },
    body: plainBody('text/plain; charset=utf-8', `${message}\n`),
  };
}

/**
 * Answers a git client (gitprotocol-http(5)) with a personal key, in the smart protocol only. It may fetch; what is pushed goes into
 * drag-and-drop repositories, as an external one is changed where it is.
 * @throws RequestError for what is refused
 */
export async function answerGit(
  library: Library,
  changes: Changes,
  route: GitRoute,
  request: ServiceRequest,
): Promise<Reply> {
  const program = programOf(route, request);
  const reference = decodeSegments(route.reference).join('/');
  const repository = findGitRepository(await library.repositories(), reference);
  if (program === 'git-receive-pack') checkPush(repository);
  return route.isAdvertisement
    ? advertisement(changes, repository, program, request)
    : conversation(changes, repository, program, request);
}

/** @throws RequestError 403 for the dumb protocol, 405 and 415 for what no git client sends */
function programOf({ program, isAdvertisement }: GitRoute, request: ServiceRequest): GitProgram {
  const method = isAdvertisement ? 'GET' : 'POST';
  if (request.method !== method)
    throw new RequestError(405, 'method_not_allowed', `this path takes ${method} only`, { allow: method });
  const asked = program ?? request.query.get('service');
  const known = PROGRAMS.find((name) => name === asked);
  if (known === undefined)
    throw new RequestError(403, 'forbidden', 'only the smart protocol of Git is spoken here');
  // No page of another origin can send this type with the password that a browser remembers.
  if (!isAdvertisement && request.headers['content-type'] !== `application/x-${known}-request`)
    throw new RequestError(415, 'invalid', `the body must be of the type application/x-${known}-request`);
  return known;
}

function checkPush({ url, full_name }: Repository): void {
  if (url === null) return;
  throw new RequestError(
    403,
    'external',
    `${full_name} is connected to an external Git repository: push to ${url}, and it will be here`,
  );
}

function protocolOf({ headers }: ServiceRequest): string | null {
  const value = headers['git-protocol'];
  return typeof value === 'string' ? value : null;
}

function advertisement(
  changes: Changes,
  { id }: Repository,
  program: GitProgram,
  request: ServiceRequest,
): Reply {
  const protocol = protocolOf(request);
  // Version 2, which is for fetching only, has no such line.
  const greeting =
    program === 'git-upload-pack' && wantsVersion2(protocol)
      ? ''
      : packetLine(`# service=${program}\n`) + FLUSH;
  async function* open(signal: AbortSignal): Bytes {
    // Goes with the first bytes of the program, so that a failure before them is told as one.
    let head = Buffer.from(greeting);
    for await (const chunk of changes.advertise(id, program, protocol, signal)) {
      yield head.length === 0 ? chunk : Buffer.concat([head, chunk]);
      head = Buffer.alloc(0);
    }
  }
  return streamReply(`application/x-${program}-advertisement`, open);
}

function conversation(
  changes: Changes,
  { id }: Repository,
  program: GitProgram,
  request: ServiceRequest,
): Reply {
  const coding = request.headers['content-encoding']?.toLowerCase() ?? 'identity';
  // Git compresses long requests.
  const isPacked = coding === 'gzip' || coding === 'x-gzip';
  if (!isPacked && coding !== 'identity')
    throw new RequestError(415, 'invalid', `the content coding ${coding} is not understood here: use gzip`);
  const body = isPacked ? unzipped(bodyOf(request.body)) : bodyOf(request.body);
  const protocol = protocolOf(request);
  const fetch = (signal: AbortSignal): Bytes =>
    changes.converse(id, program, protocol, limited(body, WANTS_LIMIT_BYTES), signal);
  // A push that is sent as it is may be longer than git's own limit, and git says so better than we could, once all of it has come;
  // what is compressed would cost its sender nothing.
  const pushed = isPacked ? limited(body, changes.maxUploadBytes + COMMANDS_LIMIT_BYTES) : body;
  const open =
    program === 'git-upload-pack'
      ? fetch
      : (signal: AbortSignal): Bytes => push(changes, id, protocol, pushed, signal);
  return streamReply(`application/x-${program}-result`, open);
}

function streamReply(contentType: string, open: (signal: AbortSignal) => Bytes): Reply {
  return { status: 200, headers: { ...NEVER_CACHED, 'content-type': contentType }, body: { open } };
}

async function* push(
  changes: Changes,
  id: string,
  protocol: string | null,
  body: Bytes,
  signal: AbortSignal,
): Bytes {
  const { commands, request } = await readPush(body);
  if (!hasStrangeName(commands)) {
    yield* changes.converse(id, 'git-receive-pack', protocol, request, signal);
    return;
  }
  // A client takes no answer before it has sent everything.
  for await (const _ of request);
  yield refusedPush(commands, 'one of these names is not UTF-8');
}

async function* unzipped(bytes: Bytes): Bytes {
  const gunzip = createGunzip();
  const done = pipeline(Readable.from(bytes, { objectMode: false }), gunzip);
  // Told by the reading as well.
  done.catch(() => undefined);
  yield* gunzip as AsyncIterable<Buffer>;
  await done;
}

async function* limited(bytes: Bytes, limitBytes: number): Bytes {
  let sizeBytes = 0;
  for await (const chunk of bytes) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) throw tooLarge(`a request may have ${limitBytes} bytes`);
    yield chunk;
  }
}
