import { contentsPath, LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, type Cached, kindOf, strongTag } from './answers.ts';
import { isArchiveStart, isCompoundStart, provesItsEnd } from '../../lib/zip/whole-file.ts';
import { HEAD_BRANCH, type Repository, serviceBranch } from './listing.ts';
import {
  type Destination,
  Download,
  type Downloaded,
  type DownloadOptions,
  type FileDestination,
  wholeBytes,
} from './download.ts';
import { contentsForbidden, statusError } from './failures.ts';
import {
  bestReference,
  failureOfForm,
  onlyAmbiguous,
  type Reference,
  type ReferenceContext,
  type ReferenceForm,
  referencesFor,
} from './repositories.ts';
import type { Transport } from './transport.ts';

/** The contents of a branch, and where they go. */
export interface ContentsRequest {
  readonly repository: Repository;
  readonly branch: string;
  /** Entity tag of what is there already: the service may say that it has not changed (RFC 9110, section 13.1.2). */
  readonly etag: string | null;
  readonly destination: Destination;
  /** Receives the bytes that are there, and the bytes in all, null where the answer does not say. */
  readonly onArrived?: (doneBytes: number, totalBytes: number | null) => void;
  readonly signal: AbortSignal;
}

export type ContentsAnswer =
  | {
      readonly kind: 'archive';
      readonly sizeBytes: number;
      readonly etag: string | null;
      /** Whether the archive has the times that the files have in a mirror, as that of a replica has. */
      readonly hasFileTimes: boolean;
      /** Null where no cache gave it. */
      readonly cached: Cached | null;
    }
  | { readonly kind: 'unchanged'; readonly cached: Cached | null }
  /** No form of reference finds contents. `isCertain`: the service itself said so plainly, by status 404 or 410. */
  | { readonly kind: 'not-found'; readonly isCertain: boolean };

export interface ContentsContext extends ReferenceContext {
  readonly transport: Transport;
  /** Greatest archive that is downloaded, in bytes after decoding. */
  readonly maxArchiveBytes: number;
}

/** Nothing at a reference. */
interface Absent {
  readonly kind: 'absent';
  /** 0 where a cache says so: it proves nothing. */
  readonly status: number;
}

/**
 * Downloads the contents of a branch as an archive: tries the forms of reference until one finds something. Where none does, a
 * plain absence by the form that worked before counts more than what the others met: a router may take their addresses for pages.
 * @throws MirrorError `contents.*`, `service.*`
 */
export async function downloadContents(
  context: ContentsContext,
  request: ContentsRequest,
): Promise<ContentsAnswer> {
  const { memory, proven, nameCounts } = context;
  const { repository } = request;
  const provenForm = proven.get(repository.id) ?? null;
  const trustedForm = provenForm ?? memory.form;
  const absences = new Map<ReferenceForm | null, number>();
  let failure: MirrorError | null = null;
  for (const reference of referencesFor(repository, nameCounts(), trustedForm)) {
    const { form } = reference;
    const answer = await downloadArchive(context, request, reference).catch(failureOfForm);
    if (answer.kind === 'absent') {
      absences.set(form, answer.status);
    } else if (answer.kind === 'failed') {
      if (form === provenForm && answer.error.code !== 'contents.wrong_kind') throw answer.error;
      failure ??= answer.error;
    } else {
      memory.form = form;
      proven.set(repository.id, form);
      return answer;
    }
  }
  if (failure !== null && !absences.has(provenForm)) throw failure;
  return notFound(context, repository, trustedForm, absences);
}

/** @param absences statuses with which nothing was found, by form of reference */
function notFound(
  context: ContentsContext,
  repository: Repository,
  trustedForm: ReferenceForm | null,
  absences: ReadonlyMap<ReferenceForm | null, number>,
): ContentsAnswer {
  const isShared = (context.nameCounts().get(repository.name.toLowerCase()) ?? 0) > 1;
  if (isShared && !absences.has(trustedForm)) throw onlyAmbiguous(repository);
  const status = absences.get(bestReference(context, repository)?.form ?? null);
  return { kind: 'not-found', isCertain: status === 404 || status === 410 };
}

async function downloadArchive(
  { transport, maxArchiveBytes }: ContentsContext,
  request: ContentsRequest,
  reference: Reference,
): Promise<ContentsAnswer | Absent> {
  const { branch, destination } = request;
  const { etag: knownTag, onArrived, signal } = request;
  const wanted = {
    destination,
    knownTag,
    what: 'archive',
    maxBytes: maxArchiveBytes,
    onArrived,
    signal,
  } as const;
  const target = contentsPath(reference.text, undefined, branchParameter(branch));
  return receive(transport, target, wanted, readArchive);
}

/** Downloads what a path gives. Its destination stays only where `read` finds there what was asked for. */
async function receive<Found extends { readonly kind: string }>(
  transport: Transport,
  target: string,
  wanted: Omit<DownloadOptions, 'limits' | 'bandwidth'>,
  read: (answer: Answer, download: Download) => Promise<Found>,
): Promise<Found> {
  const { limits, bandwidth } = transport;
  const download = new Download({ ...wanted, limits, bandwidth });
  let isKept = false;
  try {
    const request = { ...CONTENTS, target, continuation: download, signal: wanted.signal };
    const found = await transport.send(request, (answer) => read(answer, download));
    isKept = found.kind === wanted.what;
    return found;
  } finally {
    await wanted.destination.close(isKept);
  }
}

async function readArchive(answer: Answer, download: Download): Promise<ContentsAnswer | Absent> {
  const { status } = answer;
  if (isAbsent(status)) return { kind: 'absent', status: answer.cached === null ? status : 0 };
  if (status === 304 && download.isConditional) return { kind: 'unchanged', cached: answer.cached };
  if (!download.isAbout(status)) return unexpected(answer);
  const { sizeBytes, start, headers, cached } = await download.receive(answer);
  if (!isArchiveStart(start)) throw noArchive(answer, start);
  const hasFileTimes = headers[LAST_VERIFIED_HEADER] !== undefined;
  return { kind: 'archive', sizeBytes, etag: strongTag(headers['etag']), hasFileTimes, cached };
}

const CONTENTS = { generation: 'current', isContents: true } as const;

/** A single file, and where it goes. */
export interface FileRequest extends Omit<ContentsRequest, 'etag'> {
  readonly path: string;
  readonly destination: FileDestination;
  readonly expected: ExpectedFile;
  /** Greatest size; left out, that of an archive. */
  readonly maxBytes?: number;
}

export type FileAnswer =
  /** `sha256` in hexadecimal digits. */
  | { readonly kind: 'file'; readonly sizeBytes: number; readonly sha256: string; readonly crc32: number }
  | { readonly kind: 'not-found' }
  /** Not the file that was expected, or nothing that can be told to be all of it. */
  | { readonly kind: 'different' };

/**
 * Downloads a single file by its path. As with {@link contentsExist}, only the form of reference is asked that worked last. Where it
 * gives anything but a file, no file is left at the destination.
 * @throws MirrorError `contents.*`, `service.*`, `disk.*`
 */
export async function downloadFile(context: ContentsContext, request: FileRequest): Promise<FileAnswer> {
  const { repository, branch, path, destination, onArrived, signal } = request;
  const { maxBytes = context.maxArchiveBytes } = request;
  const reference = bestReference(context, repository);
  if (reference === null) return { kind: 'not-found' };
  const target = contentsPath(reference.text, path, branchParameter(branch));
  const wanted = { destination, knownTag: null, what: 'file', maxBytes, onArrived, signal } as const;
  return receive(context.transport, target, wanted, (answer, download) =>
    readFileAnswer(answer, download, request),
  );
}

async function readFileAnswer(
  answer: Answer,
  download: Download,
  { path, expected, destination }: FileRequest,
): Promise<FileAnswer> {
  if (isAbsent(answer.status)) return { kind: 'not-found' };
  if (!download.isAbout(answer.status)) return unexpected(answer);
  if (!isAnnounced(answer, expected)) return { kind: 'different' };
  // A cache may give the version before; only a digest tells.
  if (answer.cached !== null && expected.sha256 === undefined) return { kind: 'different' };
  const { sizeBytes, isCounted, headers, start } = await download.receive(answer);
  const { sha256, crc32 } = destination;
  const isRight = isExpectedFile({ path, sizeBytes, sha256, headers, start }, expected);
  const isCertain = isCounted || expected.sizeBytes !== undefined || expected.sha256 !== undefined;
  const isWhole =
    isRight && (isCertain || (await onDisk('reading the download', () => provesItsEnd(destination.bytes))));
  return isWhole ? { kind: 'file', sizeBytes, sha256, crc32 } : { kind: 'different' };
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
  return branch === HEAD_BRANCH ? undefined : serviceBranch(branch);
}

function isAbsent(status: number): boolean {
  return status === 404 || status === 410 || status === 400;
}

function unexpected(answer: Answer): never {
  if (answer.status === 403) throw contentsForbidden(answer.url);
  throw statusError(answer.status, answer.url, undefined);
}

/** The error for an answer that is no archive, such as an error in JSON or a login page with status 200. */
function noArchive({ url, status, headers }: Answer, bytes: Uint8Array): MirrorError {
  const start = Buffer.from(bytes).toString('latin1');
  const kind = start.startsWith('PK') ? 'a damaged archive' : kindOf(start, headers['content-type']);
  return new MirrorError(
    'contents.wrong_kind',
    `${url.pathname} answered with ${kind} where the API gives a zip archive (status ${status}).`,
    { hint: 'Nothing was replaced. If it stays, look at the address in a browser.' },
  );
}

/** Facts about a file before it is downloaded. */
export interface ExpectedFile {
  readonly sizeBytes?: number;
  /** In hexadecimal digits. */
  readonly sha256?: string;
}

/** A file as it came. */
export interface ReceivedFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly headers: Downloaded['headers'];
  readonly start: Downloaded['start'];
}

const LOCAL_HEADER = 'PK\u0003\u0004';
/** Where the name of the first entry begins, and where its length stands (APPNOTE 6.3.10, 4.3.7). */
const NAME_AT = 30;
const NAME_LENGTH_AT = 26;
/** Names in packages of workbooks (ECMA-376 part 2; OpenDocument 1.3 part 2): no repository has a folder of files like that. */
const PACKAGE_PARTS =
  /^(?:\[Content_Types\]\.xml$|_rels\/|docProps\/|xl\/|customXml\/|customUI\/|mimetype$|META-INF\/|content\.xml$)/;
const PACKAGES = /\.(?:xls[xmb]|xlt[xm]|ods)$/i;
const OLD_WORKBOOKS = /\.xl[st]$/i;

/**
 * Decides whether what came for the path of a file is that file. Where its digest is known, that alone counts. Where it is not, it
 * must not look like anything else that a service may answer with: a web page, an error in JSON, or the archive of a folder, which
 * begins as a workbook does. Of files that are no workbooks only their headers and first bytes can tell.
 */
export function isExpectedFile(file: ReceivedFile, expected: ExpectedFile): boolean {
  if (expected.sizeBytes !== undefined && expected.sizeBytes !== file.sizeBytes) return false;
  if (expected.sha256 !== undefined) return expected.sha256.toLowerCase() === file.sha256;
  if (isSomethingElse(file)) return false;
  const isCompound = isCompoundStart(file.start);
  if (PACKAGES.test(file.path)) return isCompound || isPackage(file.start);
  return !OLD_WORKBOOKS.test(file.path) || isCompound;
}

function isSomethingElse({ path, headers, start }: ReceivedFile): boolean {
  const type = headers['content-type']?.trim().toLowerCase() ?? '';
  const text = Buffer.from(start).toString('latin1').trimStart();
  const isPage = type.startsWith('text/html') || /^<(?:!doctype html|html)/i.test(text);
  if (isPage && !/\.x?html?$/i.test(path)) return true;
  if (/^application\/(?:[\w.-]+\+)?json/.test(type) && !/json/i.test(extensionOf(path))) return true;
  const isArchive = /^application\/(?:x-)?zip/.test(type) || namesArchive(headers['content-disposition']);
  return isArchive && !/^zip$/i.test(extensionOf(path));
}

/** Whether the name to save it by is that of an archive (RFC 6266). */
function namesArchive(disposition: string | undefined): boolean {
  const parameters = disposition?.split(';').map((each) => each.trim()) ?? [];
  return parameters.some((each) => /^filename\*?\s*=/i.test(each) && /\.zip"?$/i.test(each));
}

function extensionOf(path: string): string {
  return /\.([^./]*)$/.exec(path)?.[1] ?? '';
}

function isPackage(start: Uint8Array): boolean {
  const bytes = Buffer.from(start);
  if (bytes.length < NAME_AT || bytes.toString('latin1', 0, 4) !== LOCAL_HEADER) return false;
  const nameBytes = bytes.readUInt16LE(NAME_LENGTH_AT);
  return PACKAGE_PARTS.test(bytes.toString('latin1', NAME_AT, NAME_AT + nameBytes));
}
