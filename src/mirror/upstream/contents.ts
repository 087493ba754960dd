import { contentsPath, LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, kindOf, strongTag } from './answers.ts';
import { isArchiveStart, isCompoundStart, provesItsEnd } from '../../lib/zip/whole-file.ts';
import { type Cached, HEAD_BRANCH, type Repository, serviceBranch } from './listing.ts';
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
  failureOfForm,
  onlyAmbiguous,
  type Reference,
  type ReferenceForm,
  type ReferenceMemory,
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

/** A path of a branch. */
export type PathRequest = Pick<ContentsRequest, 'repository' | 'branch' | 'signal'> & {
  readonly path: string;
};

/** Nothing at a reference. */
interface Absent {
  readonly kind: 'absent';
  /** 0 where a cache says so: it proves nothing. */
  readonly status: number;
}

const CONTENTS = { generation: 'current', isContents: true } as const;

/** The contents of repositories, and the forms of reference by which they are found. */
export class Contents {
  /** From {@link countNames}, over all repositories of the last list. */
  nameCounts: ReadonlyMap<string, number> = new Map();
  readonly #transport: Transport;
  readonly #memory: ReferenceMemory;
  readonly #maxArchiveBytes: number;
  /** The form that last gave a repository's contents, by id: installations may take several, for other repositories. */
  readonly #proven = new Map<string, ReferenceForm>();

  /**
   * @param memory the form that worked last, for any repository; written to
   * @param maxArchiveBytes greatest archive that is downloaded, in bytes after decoding
   */
  constructor(transport: Transport, memory: ReferenceMemory, maxArchiveBytes: number) {
    this.#transport = transport;
    this.#memory = memory;
    this.#maxArchiveBytes = maxArchiveBytes;
  }

  /**
   * Downloads the contents of a branch as an archive: tries the forms of reference until one finds something. Where none does, a
   * plain absence by the form that worked before counts more than what the others met: a router may take their addresses for pages.
   * @throws MirrorError `contents.*`, `service.*`
   */
  async download(request: ContentsRequest): Promise<ContentsAnswer> {
    const { repository } = request;
    const provenForm = this.#proven.get(repository.id) ?? null;
    const trustedForm = provenForm ?? this.#memory.form;
    const absences = new Map<ReferenceForm | null, number>();
    let failure: MirrorError | null = null;
    for (const { form, text } of referencesFor(repository, this.nameCounts, trustedForm)) {
      const answer = await this.#downloadArchive(request, text).catch(failureOfForm);
      if (answer.kind === 'absent') {
        absences.set(form, answer.status);
      } else if (answer.kind === 'failed') {
        if (form === provenForm && answer.error.code !== 'contents.wrong_kind') throw answer.error;
        failure ??= answer.error;
      } else {
        this.#memory.form = form;
        this.#proven.set(repository.id, form);
        return answer;
      }
    }
    if (failure !== null && !absences.has(provenForm)) throw failure;
    return this.#notFound(repository, trustedForm, absences);
  }

  /**
   * Downloads a single file by its path. As with {@link exists}, only the form of reference is asked that worked last. Where it
   * gives anything but a file, no file is left at the destination.
   * @throws MirrorError `contents.*`, `service.*`, `disk.*`
   */
  async downloadFile(request: FileRequest): Promise<FileAnswer> {
    const { path, maxBytes = this.#maxArchiveBytes } = request;
    const target = this.#targetOf(request, path);
    if (target === null) return { kind: 'not-found' };
    const wanted = { ...request, knownTag: null, what: 'file', maxBytes } as const;
    return this.#receive(target, wanted, (answer, download) => readFileAnswer(answer, download, request));
  }

  /**
   * Whether a path of a branch exists: asks for it and does not read the answer. Only the form is asked that last gave the
   * repository's contents, because a router may have a page for every other address.
   */
  async exists(request: PathRequest): Promise<boolean> {
    const { path, signal } = request;
    const target = this.#targetOf(request, path);
    if (target === null) return false;
    const asked = { ...CONTENTS, target, signal };
    return this.#transport.send(asked, (answer) => Promise.resolve(isThere(answer, path)));
  }

  /** @param absences statuses with which nothing was found, by form of reference */
  #notFound(
    repository: Repository,
    trustedForm: ReferenceForm | null,
    absences: ReadonlyMap<ReferenceForm | null, number>,
  ): ContentsAnswer {
    const isShared = (this.nameCounts.get(repository.name.toLowerCase()) ?? 0) > 1;
    if (isShared && !absences.has(trustedForm)) throw onlyAmbiguous(repository);
    const status = absences.get(this.#likeliest(repository)?.form ?? null);
    return { kind: 'not-found', isCertain: status === 404 || status === 410 };
  }

  /** Where a path is asked for; null where no reference names its repository alone. */
  #targetOf(
    { repository, branch }: Pick<ContentsRequest, 'repository' | 'branch'>,
    path: string,
  ): string | null {
    const reference = this.#likeliest(repository);
    return reference === null ? null : contentsPath(reference.text, path, branchParameter(branch));
  }

  /** The reference that is the likeliest to be understood. */
  #likeliest(repository: Repository): Reference | null {
    const form = this.#proven.get(repository.id) ?? this.#memory.form;
    return referencesFor(repository, this.nameCounts, form)[0] ?? null;
  }

  #downloadArchive(request: ContentsRequest, reference: string): Promise<ContentsAnswer | Absent> {
    const maxBytes = this.#maxArchiveBytes;
    const target = contentsPath(reference, undefined, branchParameter(request.branch));
    const wanted = { ...request, knownTag: request.etag, what: 'archive', maxBytes } as const;
    return this.#receive(target, wanted, readArchive);
  }

  /** Downloads what a path gives. Its destination stays only where `read` finds there what was asked for. */
  async #receive<Found extends { readonly kind: string }>(
    target: string,
    wanted: Omit<DownloadOptions, 'limits' | 'bandwidth'>,
    read: (answer: Answer, download: Download) => Promise<Found>,
  ): Promise<Found> {
    const { limits, bandwidth } = this.#transport;
    const download = new Download({ ...wanted, limits, bandwidth });
    let isKept = false;
    try {
      const request = { ...CONTENTS, target, continuation: download, signal: wanted.signal };
      const found = await this.#transport.send(request, (answer) => read(answer, download));
      isKept = found.kind === wanted.what;
      return found;
    } finally {
      await wanted.destination.close(isKept);
    }
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
