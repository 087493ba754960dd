import { createWriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

import { LAST_VERIFIED_HEADER } from '../api/replica-headers.ts';
import { contentsPath } from '../api/requests.ts';
import type { ReferenceForm } from '../model/references.ts';
import { diskError, systemCode } from '../model/disk-errors.ts';
import { MirrorError } from '../model/errors.ts';
import { HEAD_BRANCH, type Repository } from '../model/service.ts';
import { formatDuration, formatSize } from '../model/units.ts';
import { announcedBytes, createMeter } from './body.ts';
import { contentsForbidden, statusError } from './failures.ts';
import { kindOf } from './json.ts';
import { bestReference, type ReferenceContext, tryReferences } from './references.ts';
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
  | {
      readonly kind: 'archive';
      readonly sizeBytes: number;
      readonly etag: string | null;
      /** Whether the archive has the times that the files have in a mirror, as that of a replica has. */
      readonly hasFileTimes: boolean;
    }
  | { readonly kind: 'unchanged' }
  /** No form of reference finds contents. `isCertain`: the service said so plainly, by status 404 or 410. */
  | { readonly kind: 'not-found'; readonly isCertain: boolean };

/** What downloads work with. */
export interface ContentsContext extends ReferenceContext {
  readonly transport: Transport;
  /** Greatest archive that is downloaded, in bytes after decoding. */
  readonly maxArchiveBytes: number;
}

/** Downloads the contents of a branch as an archive. @throws MirrorError `contents.*`, `service.*`, `credentials.refused` */
export async function downloadContents(
  context: ContentsContext,
  request: ContentsRequest,
): Promise<ContentsAnswer> {
  const absences = new Map<ReferenceForm, number>();
  const found = await tryReferences<ContentsAnswer | null>(context, request.repository, null, (reference) => {
    const headers = request.etag === null ? {} : { 'if-none-match': request.etag };
    const target = contentsPath(reference.text, undefined, branchParameter(request.branch));
    return context.transport.send(
      { generation: 'current', judgesKey: false, target, headers, signal: request.signal },
      async (answer) => {
        if (isAbsent(answer.status)) absences.set(reference.form, answer.status);
        return receiveArchive(answer, request, context);
      },
    );
  });
  if (found !== null) return found;
  const trusted = bestReference(context, request.repository);
  const status = trusted === null ? undefined : absences.get(trusted.form);
  return { kind: 'not-found', isCertain: status === 404 || status === 410 };
}

/**
 * Whether a path of a branch exists: asks for it and does not read the answer. Only the form is asked that last gave the
 * repository's contents, because a router may have a page for every other address.
 */
export async function contentsExist(
  context: ContentsContext,
  request: Pick<ContentsRequest, 'repository' | 'branch' | 'signal'> & { readonly path: string },
): Promise<boolean> {
  const { repository, branch, path, signal } = request;
  const reference = bestReference(context, repository);
  if (reference === null) return false;
  const target = contentsPath(reference.text, path, branchParameter(branch));
  return context.transport.send({ generation: 'current', judgesKey: false, target, signal }, (answer) =>
    Promise.resolve(isThere(answer, path)),
  );
}

/** @throws MirrorError `contents.wrong_kind` for a web page in the place of a file: it says nothing about the file */
function isThere(answer: Answer, path: string): boolean {
  if (isAbsent(answer.status)) return false;
  if (answer.status !== 200) return unexpected(answer);
  const isPage = answer.headers['content-type']?.toLowerCase().includes('text/html') === true;
  if (!isPage || /\.x?html?$/i.test(path)) return true;
  throw new MirrorError(
    'contents.wrong_kind',
    `${answer.url.pathname} answered with an HTML page where the API gives a file (status 200).`,
  );
}

/** A name with half a character cannot be sent: the address would name another branch. */
function branchParameter(branch: string): string | undefined {
  if (!branch.isWellFormed()) {
    throw new MirrorError(
      'contents.not_found',
      `The branch ${JSON.stringify(branch)} cannot be asked for: its name is no text.`,
    );
  }
  return branch === HEAD_BRANCH ? undefined : branch;
}

function isAbsent(status: number): boolean {
  return status === 404 || status === 410 || status === 400;
}

function unexpected(answer: Answer): never {
  if (answer.status === 403) throw contentsForbidden(answer.url);
  throw statusError(answer.status, answer.url, undefined);
}

async function receiveArchive(
  answer: Answer,
  request: ContentsRequest,
  context: ContentsContext,
): Promise<ContentsAnswer | null> {
  if (answer.status === 304 && request.etag !== null) return { kind: 'unchanged' };
  if (isAbsent(answer.status)) return null;
  if (answer.status !== 200) return unexpected(answer);
  const sizeBytes = await writeBody(answer, request.destination, context);
  await checkIsArchive(answer, request.destination);
  const hasFileTimes = answer.headers[LAST_VERIFIED_HEADER] !== undefined;
  return { kind: 'archive', sizeBytes, etag: strongTag(answer.headers['etag']), hasFileTimes };
}

async function writeBody(
  answer: Answer,
  destination: string,
  { maxArchiveBytes, transport }: ContentsContext,
): Promise<number> {
  const { pathname } = answer.url;
  const tooLarge = (): MirrorError => archiveTooLarge(pathname, maxArchiveBytes);
  const tooSlow = (durationMs: number): MirrorError =>
    new MirrorError(
      'contents.interrupted',
      `The download of ${pathname} hardly moved for ${formatDuration(durationMs)} and was broken off.`,
    );
  await rm(destination, { force: true });
  if ((announcedBytes(answer.headers) ?? 0) > maxArchiveBytes) throw tooLarge();
  const { stallTimeoutMs, onProgress } = transport.limits;
  const meter = createMeter({ maxBytes: maxArchiveBytes, stallTimeoutMs, onProgress, tooLarge, tooSlow });
  const file = createWriteStream(destination, { flags: 'wx', highWaterMark: 1024 * 1024 });
  try {
    await pipeline(answer.body, meter, file);
  } catch (cause) {
    if (isOfTheDisk(cause)) throw diskError(cause, 'writing the download');
    await rm(destination, { force: true });
    if (cause instanceof MirrorError) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new MirrorError('contents.interrupted', `The download of ${pathname} broke off: ${message}.`, {
      cause,
    });
  }
  return file.bytesWritten;
}

function archiveTooLarge(pathname: string, maxArchiveBytes: number): MirrorError {
  return new MirrorError(
    'contents.too_large',
    `The archive of ${pathname} is greater than ${formatSize(maxArchiveBytes)}: setting archive.maxSize.`,
    {
      hint: 'What is mirrored stays as it is until the contents change. If the archive is right, raise archive.maxSize.',
    },
  );
}

/** Codes of failed writes that only connections have. */
const CONNECTION_CODES: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'ECONNABORTED', 'ENOTCONN']);

/** Whether an error comes from the file: a pipeline fails both of its ends with the error of either. */
function isOfTheDisk(error: unknown): boolean {
  const code = systemCode(error);
  if (code === undefined || CONNECTION_CODES.has(code) || !(error instanceof Error)) return false;
  const { syscall } = error as NodeJS.ErrnoException;
  return syscall === 'open' || syscall === 'write' || syscall === 'close';
}

/** How zip archives begin: with an entry, or, where they are empty, with the end of the directory (APPNOTE 6.3.10, 4.3). */
const ARCHIVE_STARTS = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0006\u0006'];

/** Recognises an answer that is no archive, such as an error in JSON or a login page with status 200. */
async function checkIsArchive(answer: Answer, file: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(512), 0, 512, 0);
    const start = buffer.toString('latin1', 0, bytesRead);
    if (ARCHIVE_STARTS.some((magic) => start.startsWith(magic))) return;
    const kind = start.startsWith('PK') ? 'a damaged archive' : kindOf(start, answer.headers['content-type']);
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
