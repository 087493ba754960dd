import { type ReferenceForm, referencesFor } from '../../lib/api/references.ts';
import { contentsPath, LAST_VERIFIED_HEADER } from '../../lib/api/requests.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, strongTag, type Cached } from './answers.ts';
import { kindOf, contentsForbidden, statusError } from './failures.ts';
import { isArchiveStart, isCompoundStart, provesItsEnd } from '../../lib/zip/whole-file.ts';
import { HEAD_BRANCH, type Repository, serviceBranch } from './listing.ts';
import {
  Bandwidth,
  Download,
  type DownloadOptions,
  type DownloadRequest,
  type FileDestination,
} from './download.ts';
import type { Transport } from './transport.ts';

/** The contents of a branch, and their destination. */
export interface ContentsRequest extends DownloadRequest {
  readonly repository: Repository;
  readonly branch: string;
}

export type ContentsAnswer =
  | {
      readonly kind: 'archive';
      readonly sizeBytes: number;
      readonly etag: string | null;
      /** Whether the archive has the file times of a mirror, as a replica's archive has. */
      readonly hasFileTimes: boolean;
      /** Null if no cache gave it. */
      readonly cached: Cached | null;
    }
  | { readonly kind: 'unchanged'; readonly cached: Cached | null }
  /** No form of reference finds contents. `isCertain`: the service itself said so plainly, by status 404 or 410. */
  | { readonly kind: 'not-found'; readonly isCertain: boolean };

/** A single file, and its destination. */
export interface FileRequest extends Omit<ContentsRequest, 'etag'> {
  readonly path: string;
  readonly destination: FileDestination;
  readonly expected: ExpectedFile;
}

export interface FileAnswer {
  /** `different`: a wrong file, or one that cannot be proved complete. */
  readonly kind: 'file' | 'not-found' | 'different';
}

/** A path of a branch. */
export type PathRequest = Pick<ContentsRequest, 'repository' | 'branch' | 'signal'> & {
  readonly path: string;
};

/** Nothing at a reference. `status` is 0 if a cache says so: that proves nothing. */
type Absent = { readonly kind: 'absent'; readonly status: number };

const CONTENTS = { generation: 'current', isContents: true } as const;

/** Errors that an installation may give for a form of reference that it does not accept. */
const ERRORS_OF_FORMS: ReadonlySet<string> = new Set([
  'contents.wrong_kind',
  'contents.forbidden',
  'service.wrong_kind',
]);

/** The contents of repositories, and the forms of reference by which they are found. */
export class Contents {
  /** From {@link countNames}, over all repositories of the last list. */
  nameCounts: ReadonlyMap<string, number> = new Map();
  readonly transport: Transport;
  readonly #memory: ReferenceMemory;
  readonly #maxArchiveBytes: number;
  readonly #bandwidth: Bandwidth | null;
  /** The form that last gave a repository's contents, by id: installations may accept several, depending on the repository. */
  readonly #proven = new Map<string, ReferenceForm>();
  /** The repositories, by id, for which that form failed since. */
  readonly #doubted = new Set<string>();

  /**
   * @param memory the form that worked last, for any repository; is updated
   * @param maxArchiveBytes greatest archive that is downloaded, in bytes after decoding
   * @param maxBandwidth of all downloads together, in bytes a second; null for no limit
   */
  constructor(
    transport: Transport,
    memory: ReferenceMemory,
    maxArchiveBytes: number,
    maxBandwidth: number | null = null,
  ) {
    this.transport = transport;
    this.#memory = memory;
    this.#maxArchiveBytes = maxArchiveBytes;
    this.#bandwidth = maxBandwidth === null ? null : new Bandwidth(maxBandwidth);
  }

  /**
   * Downloads the contents of a branch as an archive: tries the forms of reference until one finds something. If none does, a
   * plain absence by the form that worked before outweighs the other results: a router may answer their addresses with pages.
   * @throws MirrorError `contents.*`, `service.*`
   */
  async download(request: ContentsRequest): Promise<ContentsAnswer> {
    const { repository } = request;
    const trusted = this.#formOf(repository);
    const absences = new Map<ReferenceForm | null | undefined, number>();
    let failure: MirrorError | null = null;
    for (const { form, text } of referencesFor(repository, this.nameCounts, trusted)) {
      try {
        const target = contentsPath(text, undefined, branchParameter(request.branch));
        const answer = await this.#receive(target, { ...request, what: 'archive' }, readArchive);
        if (answer.kind !== 'absent') {
          this.#remember(repository, form, absences.has('id'));
          return answer;
        }
        absences.set(form, answer.status);
        // Its names may be another repository's since the list was read.
        if (form === 'id' && this.#beginsDoubt(repository, form)) break;
      } catch (error) {
        if (!isOfForm(error, trusted === null) || this.#beginsDoubt(repository, form, error.code))
          throw error;
        failure ??= error;
      }
    }
    if (failure !== null && !absences.has(this.#formBefore(repository, failure))) throw failure;
    const isShared = (this.nameCounts.get(repository.name.toLowerCase()) ?? 0) > 1;
    if (isShared && !absences.has(trusted)) throw onlyAmbiguous(repository);
    const [status] = absences.values();
    return { kind: 'not-found', isCertain: status !== undefined && isPlainlyAbsent(status) };
  }

  /**
   * Downloads a single file by its path. As with {@link exists}, only the form of reference that worked last is tried. If it
   * gives anything but a file, no file is left at the destination.
   * @throws MirrorError `contents.*`, `service.*`, `disk.*`
   */
  async downloadFile(request: FileRequest): Promise<FileAnswer> {
    const { path } = request;
    const target = this.#targetOf(request, path);
    if (target === null) return { kind: 'not-found' };
    const wanted = { ...request, etag: null, what: 'file' } as const;
    return this.#receive(target, wanted, (answer, download) => readFileAnswer(answer, download, request));
  }

  /**
   * Whether a path of a branch exists: asks for it without reading the answer. Only tries the form that last gave the
   * repository's contents, because a router may have a page for every other address.
   * @returns null if it seems to be absent, and that proves nothing: a cache says so, or no plain status (404, 410)
   */
  async exists(request: PathRequest): Promise<boolean | null> {
    const { path, signal } = request;
    const target = this.#targetOf(request, path);
    if (target === null) return null;
    const asked = { ...CONTENTS, target, signal };
    return this.transport.send(asked, (answer) => Promise.resolve(isThere(answer, path)));
  }

  /** Remembers a form that found contents. One repository that is gone by its id disproves no ids that find others. */
  #remember({ id }: Repository, form: ReferenceForm, isGoneById: boolean): void {
    this.#proven.set(id, form);
    this.#doubted.delete(id);
    if (!isGoneById || ![...this.#proven.values()].includes('id')) this.#memory.referenceForm = form;
  }

  /**
   * The form whose plain absence outweighs a failure of others. Unaccepted forms get an unexpected status: after that, it may be the
   * form that worked for another repository.
   */
  #formBefore(repository: Repository, { code }: MirrorError): ReferenceForm | null | undefined {
    return code === 'service.wrong_kind' ? this.#formOf(repository) : this.#proven.get(repository.id);
  }

  /**
   * Notes that a form has failed, unless it found contents of another kind.
   * @param code of the error; left out if the contents are absent
   * @returns whether it gave these contents before, and fails for the first time since: no reason to try another one yet
   */
  #beginsDoubt({ id }: Repository, form: ReferenceForm, code?: ErrorCode): boolean {
    if (form !== this.#proven.get(id) || code === 'contents.wrong_kind' || this.#doubted.has(id))
      return false;
    this.#doubted.add(id);
    return true;
  }

  #formOf({ id }: Repository): ReferenceForm | null {
    return this.#proven.get(id) ?? this.#memory.referenceForm;
  }

  /** The reference for asking for a path; null if no reference names its repository alone. */
  #targetOf({ repository, branch }: Omit<PathRequest, 'signal'>, path: string): string | null {
    const [reference] = referencesFor(repository, this.nameCounts, this.#formOf(repository));
    return reference === undefined ? null : contentsPath(reference.text, path, branchParameter(branch));
  }

  /** Downloads the answer for a path. Its destination is kept only if `read` finds the right file there. */
  async #receive<Found extends { readonly kind: string }>(
    target: string,
    wanted: Omit<DownloadOptions, 'bandwidth' | 'maxBytes'>,
    read: (answer: Answer, download: Download) => Promise<Found>,
  ): Promise<Found> {
    const download = new Download({
      ...wanted,
      maxBytes: this.#maxArchiveBytes,
      bandwidth: this.#bandwidth,
    });
    let isKept = false;
    try {
      const request = { ...CONTENTS, target, continuation: download, signal: wanted.signal };
      const found = await this.transport.send(request, (answer) => read(answer, download));
      isKept = found.kind === wanted.what;
      return found;
    } finally {
      await wanted.destination.close(isKept);
    }
  }
}

/**
 * Whether another form may avoid a failure. If no key is accepted, it would only be refused again.
 * @param isFirst whether no form ever worked: then this one may be why the service fails
 */
function isOfForm(error: unknown, isFirst: boolean): error is MirrorError {
  if (!(error instanceof MirrorError)) return false;
  if (isFirst && error.code === 'service.failed') return true;
  if (!ERRORS_OF_FORMS.has(error.code)) return false;
  return error.code !== 'contents.forbidden' || error.action !== 'retry';
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
  { expected, destination }: FileRequest,
): Promise<FileAnswer> {
  if (isAbsent(answer.status)) return { kind: 'not-found' };
  if (!download.isAbout(answer.status)) return unexpected(answer);
  // A cache may give the previous version; only a digest shows that.
  if (answer.cached !== null && expected.sha256 === undefined) return { kind: 'different' };
  const { sizeBytes, isCounted, isJoined, start } = await download.receive(answer);
  // Nothing but a digest shows whether parts of several answers belong together.
  if (isJoined && expected.sha256 === undefined) return { kind: 'different' };
  const { sha256 } = destination;
  if (!isExpectedFile({ sizeBytes, sha256, start }, expected)) return { kind: 'different' };
  const isWhole =
    isCounted ||
    expected.sizeBytes !== undefined ||
    expected.sha256 !== undefined ||
    (await onDisk('reading the download', () =>
      provesItsEnd((...part) => destination.read(...part), sizeBytes),
    ));
  return { kind: isWhole ? 'file' : 'different' };
}

/** @throws MirrorError `contents.wrong_kind` for a web page in place of a file: it says nothing about the file */
function isThere(answer: Answer, path: string): boolean | null {
  if (isAbsent(answer.status)) return isPlainlyAbsent(answer.status) && answer.cached === null ? false : null;
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

/** Whether a status says that there is nothing; only {@link isPlainlyAbsent} proves it. An empty repository may answer with 204. */
function isAbsent(status: number): boolean {
  return isPlainlyAbsent(status) || status === 400 || status === 204;
}

function isPlainlyAbsent(status: number): boolean {
  return status === 404 || status === 410;
}

function unexpected(answer: Answer): never {
  if (answer.status === 403) throw contentsForbidden(answer.url);
  throw statusError(answer.status, answer.url, undefined);
}

/** The error for an answer that is no archive, for example an error in JSON or a login page with status 200. */
function noArchive({ url, status, headers }: Answer, bytes: Uint8Array): MirrorError {
  const start = Buffer.from(bytes).toString('latin1');
  const kind = start.startsWith('PK') ? 'a damaged archive' : kindOf(start, headers['content-type']);
  return new MirrorError(
    'contents.wrong_kind',
    `${url.pathname} answered with ${kind} where the API gives a zip archive (status ${status}).`,
    { hint: 'Nothing was replaced. If this persists, look at the address in a browser.' },
  );
}

/** Facts that are known about a file before it is downloaded. */
export interface ExpectedFile {
  readonly sizeBytes?: number;
  /** In hexadecimal digits. */
  readonly sha256?: string;
}

/**
 * Decides whether a download is the requested workbook. If its digest is known, that alone counts. Otherwise it
 * must begin as workbooks do: a web page, an error in JSON and the archive of a folder, which a service may answer with, do not.
 * @param file the download, with its first bytes
 */
export function isExpectedFile(
  file: Required<ExpectedFile> & { readonly start: Uint8Array },
  expected: ExpectedFile,
): boolean {
  if (expected.sizeBytes !== undefined && expected.sizeBytes !== file.sizeBytes) return false;
  if (expected.sha256 !== undefined) return expected.sha256.toLowerCase() === file.sha256;
  return isCompoundStart(file.start) || isPackage(file.start);
}

/** Names in packages of workbooks (ECMA-376 part 2; OpenDocument 1.3 part 2): no repository has a folder of files like that. */
const PACKAGE_PARTS =
  /^(?:\[Content_Types\]\.xml$|_rels\/|docProps\/|xl\/|customXml\/|customUI\/|mimetype$|META-INF\/|content\.xml$)/;

/** Whether an archive begins with a part of a workbook: its first local header has the name's length and the name (APPNOTE 6.3.10, 4.3.7). */
function isPackage(start: Uint8Array): boolean {
  const bytes = Buffer.from(start);
  if (bytes.length < 30 || bytes.toString('latin1', 0, 4) !== 'PK\u0003\u0004') return false;
  return PACKAGE_PARTS.test(bytes.toString('latin1', 30, 30 + bytes.readUInt16LE(26)));
}

/** The form of reference that an installation accepts: found by trying, remembered, and found again when it stops working. */
export interface ReferenceMemory {
  referenceForm: ReferenceForm | null;
}

/** The error if the only form left is a short name that others share. */
function onlyAmbiguous(repository: Repository): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `No reference that names ${repository.fullName} alone finds its contents, and the short name ${JSON.stringify(repository.name)} is shared with others, or may be, as not all of the list of repositories is understood.`,
    {
      hint: 'Rename one of the repositories of that name in the service; `status` shows what is wrong with the list.',
    },
  );
}
