import { createWriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

import { contentsPath } from '../api/requests.ts';
import { MirrorError } from '../model/errors.ts';
import { type Reference, type ReferenceForm, referencesFor } from '../model/references.ts';
import { HEAD_BRANCH, type Repository } from '../model/service.ts';
import { statusError } from './failures.ts';
import { kindOf } from './json.ts';
import type { Answer, Transport } from './transport.ts';

/** What of the contents is asked for. */
export interface ContentsRequest {
  readonly repository: Repository;
  readonly branch: string;
  /** Entity tag of what is there already: the service may say that it has not changed (RFC 9110, section 13.1.2). */
  readonly etag: string | null;
  /** Where the archive is written to. */
  readonly destination: string;
  readonly signal: AbortSignal;
}

/** What the service gave. */
export type ContentsAnswer =
  | { readonly kind: 'archive'; readonly sizeBytes: number; readonly etag: string | null }
  | { readonly kind: 'unchanged' }
  /** No form of reference finds contents. */
  | { readonly kind: 'not-found' };

/** Which form of reference an installation takes: found by trying, remembered, found again when it stops working. */
export interface ReferenceMemory {
  form: ReferenceForm | null;
}

/** What downloads work with. */
export interface ContentsContext {
  readonly transport: Transport;
  readonly memory: ReferenceMemory;
  /** From `countNames`, over all repositories of the last list. */
  readonly nameCounts: () => ReadonlyMap<string, number>;
}

/** Downloads the contents of a branch as an archive. @throws MirrorError `contents.*`, `service.*`, `credentials.refused` */
export async function downloadContents(
  context: ContentsContext,
  request: ContentsRequest,
): Promise<ContentsAnswer> {
  return tryReferences<ContentsAnswer>(context, request.repository, { kind: 'not-found' }, (reference) => {
    const headers = request.etag === null ? {} : { 'if-none-match': request.etag };
    const target = contentsPath(reference.text, undefined, branchParameter(request.branch));
    return context.transport.send(
      { generation: 'current', target, headers, signal: request.signal },
      (answer) => receiveArchive(answer, request),
    );
  });
}

/** Whether a path of a branch exists: asks for it and does not read the answer. */
export async function contentsExist(
  context: ContentsContext,
  request: Pick<ContentsRequest, 'repository' | 'branch' | 'signal'> & { readonly path: string },
): Promise<boolean> {
  return tryReferences(context, request.repository, false, (reference) => {
    const target = contentsPath(reference.text, request.path, branchParameter(request.branch));
    return context.transport.send({ generation: 'current', target, signal: request.signal }, (answer) =>
      Promise.resolve(answer.status === 200 || (isAbsent(answer.status) ? null : unexpected(answer))),
    );
  });
}

/**
 * Tries the forms of reference until one finds something. An answer of the wrong kind may come from a router that takes
 * the address for a page, so the other forms are tried before it counts.
 */
async function tryReferences<T>(
  context: ContentsContext,
  repository: Repository,
  absent: T,
  ask: (reference: Reference) => Promise<T | null>,
): Promise<T> {
  let failure: MirrorError | null = null;
  for (const reference of referencesFor(repository, context.nameCounts(), context.memory.form)) {
    try {
      const found = await ask(reference);
      if (found === null) continue;
      context.memory.form = reference.form;
      return found;
    } catch (error) {
      if (!(error instanceof MirrorError) || error.code !== 'contents.wrong_kind') throw error;
      failure ??= error;
    }
  }
  if (failure !== null) throw failure;
  return absent;
}

function branchParameter(branch: string): string | undefined {
  return branch === HEAD_BRANCH ? undefined : branch;
}

function isAbsent(status: number): boolean {
  return status === 404 || status === 410 || status === 400;
}

function unexpected(answer: Answer): never {
  if (answer.status === 403) {
    throw new MirrorError(
      'contents.forbidden',
      `${answer.url.pathname} is forbidden to this API key (status 403).`,
      {
        hint: 'Give the person whose key it is access to the repository, or exclude it: the setting repositories.exclude.',
      },
    );
  }
  throw statusError(answer.status, answer.url, undefined);
}

async function receiveArchive(answer: Answer, request: ContentsRequest): Promise<ContentsAnswer | null> {
  if (answer.status === 304 && request.etag !== null) return { kind: 'unchanged' };
  if (isAbsent(answer.status)) return null;
  if (answer.status !== 200) return unexpected(answer);
  const sizeBytes = await writeBody(answer, request.destination);
  await checkIsArchive(answer, request.destination);
  return { kind: 'archive', sizeBytes, etag: strongTag(answer.headers['etag']) };
}

async function writeBody(answer: Answer, destination: string): Promise<number> {
  await rm(destination, { force: true });
  const file = createWriteStream(destination, { flags: 'wx', highWaterMark: 1024 * 1024 });
  try {
    await pipeline(answer.body, file);
  } catch (cause) {
    if (file.errored !== null && 'syscall' in file.errored && answer.body.errored === null) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new MirrorError(
      'contents.interrupted',
      `The download of ${answer.url.pathname} broke off: ${message}.`,
      { cause },
    );
  }
  return file.bytesWritten;
}

/** Recognises an answer that is no archive, such as an error in JSON or a login page with status 200. */
async function checkIsArchive(answer: Answer, file: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(512), 0, 512, 0);
    const start = buffer.toString('latin1', 0, bytesRead);
    if (start.startsWith('PK\u0003\u0004') || start.startsWith('PK\u0005\u0006')) return;
    const kind = kindOf(start, answer.headers['content-type']);
    throw new MirrorError(
      'contents.wrong_kind',
      `${answer.url.pathname} answered with ${kind} where the API gives a zip archive (status ${answer.status}).`,
      {
        hint: 'Nothing was replaced. It is tried again by itself; look at the address in a browser if it stays.',
      },
    );
  } finally {
    await handle.close();
  }
}

/** Only a strong tag says that the bytes are the same (RFC 9110, section 8.8.1). */
function strongTag(etag: string | undefined): string | null {
  return etag !== undefined && /^"[\u0021\u0023-\u007e]*"$/.test(etag) ? etag : null;
}
