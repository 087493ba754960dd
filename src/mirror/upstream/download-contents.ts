import { open } from 'node:fs/promises';

import { LAST_VERIFIED_HEADER } from '../../lib/api/replica-headers.ts';
import { contentsPath } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Reference, ReferenceForm } from './reference-forms.ts';
import { HEAD_BRANCH, type Repository } from './listing.ts';
import { formatSize } from '../../lib/text/units.ts';
import { createDigester } from './digester.ts';
import { Download } from './download.ts';
import { contentsForbidden, statusError } from './failures.ts';
import { type ExpectedFile, isExpectedFile, START_BYTES } from './file-kind.ts';
import { kindOf } from './json.ts';
import { bestReference, type ReferenceContext, tryReferences } from './references.ts';
import { strongTag, wholeBytes } from './resume.ts';
import type { Answer, Transport } from './transport.ts';

/** What of the contents is asked for. */
export interface ContentsRequest {
  readonly repository: Repository;
  readonly branch: string;
  /** Entity tag of what is there already: the service may say that it has not changed (RFC 9110, section 13.1.2). */
  readonly etag: string | null;
  /** Where the archive is written to. */
  readonly destination: string;
  /** Is told how much is on disk, and of how much, where the answer says so; both in bytes. */
  readonly onArrived?: (doneBytes: number, totalBytes: number | null) => void;
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
  const found = await tryReferences(context, request.repository, null, (reference) =>
    downloadArchive(context, request, reference, (status) => absences.set(reference.form, status)),
  );
  if (found !== null) return found;
  const trusted = bestReference(context, request.repository);
  const status = trusted === null ? undefined : absences.get(trusted.form);
  return { kind: 'not-found', isCertain: status === 404 || status === 410 };
}

/** @param onAbsent is told of a status that says that there is nothing */
async function downloadArchive(
  context: ContentsContext,
  { branch, etag, destination, signal, onArrived }: ContentsRequest,
  reference: Reference,
  onAbsent: (status: number) => void,
): Promise<ContentsAnswer | null> {
  const download = new Download({
    destination,
    knownTag: etag,
    maxBytes: context.maxArchiveBytes,
    tooLarge: (pathname) => archiveTooLarge(pathname, context.maxArchiveBytes),
    digester: null,
    onArrived,
    limits: context.transport.limits,
    bandwidth: context.transport.bandwidth,
    signal,
  });
  const target = contentsPath(reference.text, undefined, branchParameter(branch));
  const makeTries = (): Promise<ContentsAnswer | null> =>
    context.transport.send({ ...CONTENTS, target, continuation: download, signal }, async (answer) => {
      if (isAbsent(answer.status)) {
        onAbsent(answer.status);
        return null;
      }
      if (answer.status === 304 && download.isConditional) return { kind: 'unchanged' };
      return receiveArchive(answer, destination, download);
    });
  return download.finish(makeTries, (result) => result?.kind === 'archive');
}

/** What all requests for contents have in common. */
const CONTENTS = { generation: 'current', judgesKey: false, isContents: true } as const;

/** What a single file is asked for by, and where it goes. */
export interface FileRequest extends Omit<ContentsRequest, 'etag'> {
  readonly path: string;
  /** What is known of the file that is wanted. */
  readonly expected: ExpectedFile;
  /** Greatest size; left out, that of an archive. */
  readonly maxBytes?: number;
}

/** What the service gave for the path of a file. */
export type FileAnswer =
  /** `sha256` in hexadecimal digits. */
  | { readonly kind: 'file'; readonly sizeBytes: number; readonly sha256: string; readonly crc32: number }
  | { readonly kind: 'not-found' }
  /** Not the file that was expected, or nothing that can be told to be one. */
  | { readonly kind: 'different' };

/**
 * Downloads a single file by its path. As with {@link contentsExist}, only the form of reference is asked that worked last. Where it
 * gives anything but a file, no file is left at the destination.
 * @throws MirrorError `contents.*`, `service.*`, `credentials.refused`, `disk.*`
 */
export async function downloadFile(context: ContentsContext, request: FileRequest): Promise<FileAnswer> {
  const { repository, branch, path, expected, destination, signal, onArrived } = request;
  const reference = bestReference(context, repository);
  if (reference === null) return { kind: 'not-found' };
  const maxBytes = request.maxBytes ?? context.maxArchiveBytes;
  const digester = createDigester();
  const download = new Download({
    destination,
    knownTag: null,
    maxBytes,
    tooLarge: (pathname) => fileTooLarge(pathname, maxBytes),
    digester,
    onArrived,
    limits: context.transport.limits,
    bandwidth: context.transport.bandwidth,
    signal,
  });
  const target = contentsPath(reference.text, path, branchParameter(branch));
  const makeTries = (): Promise<FileAnswer> =>
    context.transport.send({ ...CONTENTS, target, continuation: download, signal }, async (answer) => {
      if (isAbsent(answer.status)) return { kind: 'not-found' };
      if (!download.isAbout(answer.status)) return unexpected(answer);
      if (!isAnnounced(answer, expected)) return { kind: 'different' };
      const { sizeBytes, headers } = await download.receive(answer);
      const { sha256, crc32 } = digester.results();
      const start = await readStart(destination);
      const isRight = isExpectedFile({ path, sizeBytes, sha256, headers, start }, expected);
      return isRight ? { kind: 'file', sizeBytes, sha256, crc32 } : { kind: 'different' };
    });
  return download.finish(makeTries, ({ kind }) => kind === 'file');
}

/** Whether the length that an answer with the whole file says it has is the expected one, as far as either is known. */
function isAnnounced({ status, headers }: Answer, { sizeBytes }: ExpectedFile): boolean {
  const totalBytes = status === 200 ? wholeBytes(headers) : null;
  return sizeBytes === undefined || totalBytes === null || totalBytes === sizeBytes;
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
  return context.transport.send({ ...CONTENTS, target, signal }, (answer) =>
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
      `The branch ${JSON.stringify(branch)} cannot be asked for: its name is not valid Unicode.`,
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
  destination: string,
  download: Download,
): Promise<ContentsAnswer> {
  if (!download.isAbout(answer.status)) return unexpected(answer);
  const { sizeBytes, headers } = await download.receive(answer);
  await checkIsArchive(answer, destination);
  const hasFileTimes = headers[LAST_VERIFIED_HEADER] !== undefined;
  return { kind: 'archive', sizeBytes, etag: strongTag(headers['etag']), hasFileTimes };
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

function fileTooLarge(pathname: string, maxBytes: number): MirrorError {
  return new MirrorError(
    'contents.too_large',
    `The file ${pathname} is greater than ${formatSize(maxBytes)}.`,
    {
      hint: 'What is mirrored stays as it is until the contents change. If the file is right, raise archive.maxSize.',
    },
  );
}

/** How zip archives begin: with an entry, or, where they are empty, with the end of the directory (APPNOTE 6.3.10, 4.3). */
const ARCHIVE_STARTS = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0006\u0006'];

/** Recognises an answer that is no archive, such as an error in JSON or a login page with status 200. */
async function checkIsArchive(answer: Answer, file: string): Promise<void> {
  const start = Buffer.from(await readStart(file)).toString('latin1');
  if (ARCHIVE_STARTS.some((magic) => start.startsWith(magic))) return;
  const kind = start.startsWith('PK') ? 'a damaged archive' : kindOf(start, answer.headers['content-type']);
  throw new MirrorError(
    'contents.wrong_kind',
    `${answer.url.pathname} answered with ${kind} where the API gives a zip archive (status ${answer.status}).`,
    {
      hint: 'Nothing was replaced. It is tried again by itself; look at the address in a browser if it stays.',
    },
  );
}

async function readStart(file: string): Promise<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(START_BYTES), 0, START_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
