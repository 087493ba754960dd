/** The data that the service serves, from Git repositories or a mirror, and the requests that change it. */

/** A repository as the current API gives it (service specification, section 2.1). */
export interface Repository {
  readonly id: string;
  readonly name: string;
  readonly full_name: string;
  readonly url: string | null;
  /** Null if unknown. */
  readonly created_at: string | null;
}

/** A part of a file, both ends included, in bytes from its beginning. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** A stream of bytes that fails rather than ending early. Opened when needed, and aborted by the signal. */
export type Bytes = AsyncIterable<Uint8Array>;

/** A file, or a folder as a zip archive, at a path of a branch. */
export interface Content {
  readonly kind: 'file' | 'archive';
  /** Strong entity tag (RFC 9110, section 8.8.3): only the same bytes have it. */
  readonly etag: string;
  /** Null if unknown until the last byte is made: then no part can be requested. */
  readonly sizeBytes: number | null;
  /** When this was last verified against the service, in milliseconds since the epoch; the service itself omits it. */
  readonly verifiedAtMs?: number;
  /** @param range only if the size is known */
  readonly open: (signal: AbortSignal, range?: ByteRange) => Bytes;
}

/** A request for a content. */
export interface WantedContent {
  readonly repository: Repository;
  /** Null for the default branch. */
  readonly branch: string | null;
  /** Without a slash at either end; empty for the whole repository. */
  readonly path: string;
  /** Ends the search when the client is gone. */
  readonly signal?: AbortSignal;
}

/** A version of a workbook (section 2.3). */
export interface Version {
  readonly id: string;
  readonly author: string | null;
  readonly action: string | null;
  /** As v1 writes it: no fraction. */
  readonly createdAt: string | null;
  /** With its line feed, if it has one. */
  readonly message: string | null;
  readonly parentId: string | null;
}

/** One workbook on one branch. */
export interface WorkbookRow {
  /** `<integration>/<path>` (section 2.2): the same on every branch. */
  readonly id: string;
  /** Full name of the repository. */
  readonly integration: string;
  readonly branch: string;
  /** Path inside the repository, without a leading slash. */
  readonly path: string;
  readonly version: Version;
  /** Key of the file's bytes and kind, if the library knows it: rows with the same key have the same status. */
  readonly contentKey?: string;
  /** Size in bytes and SHA-256 of the file, if the library knows them. */
  readonly file?: { readonly size: number; readonly digest: string };
}

/** Processing state of a workbook (sections 2.3 and 2.4). */
export interface ProcessingStatus {
  readonly status: 'processing' | 'failure' | 'success';
  /** Number of versions that are being processed, and that failed. */
  readonly processing: number;
  readonly failure: number;
}

/** The workbooks of all repositories at one moment. */
export interface Workbooks {
  /** Sorted by id and branch; the same array as long as nothing has changed. */
  readonly rows: readonly WorkbookRow[];
  readonly statusOf: (row: WorkbookRow) => ProcessingStatus;
}

/** The source of everything that can be read. */
export interface Library {
  /** @param age `recent` for a caller that asks again if a repository is missing in a list of a moment ago */
  readonly repositories: (age?: 'recent') => Promise<readonly Repository[]>;
  /**
   * Finds the content at a path.
   * @throws RequestError 404 for a branch or path that does not exist, 503 for content that is not there yet, the reason of `signal`
   */
  readonly content: (wanted: WantedContent) => Promise<Content>;
  readonly workbooks: () => Promise<Workbooks>;
  /**
   * Verification time of the data verified longest ago, in milliseconds since the epoch; null
   * if there is no data; the service itself omits it.
   */
  readonly verifiedAtMs?: () => Promise<number | null>;
}

/** An external repository to connect, as a client names it (section 4.1). */
export interface ExternalRepository {
  readonly url: string;
  readonly username: string | null;
  readonly password: string | null;
}

/** Received files that become one commit. */
export interface Upload {
  readonly author: string;
  /** Empty for the default branch. */
  readonly branch: string;
  readonly message: string;
  readonly files: ReadonlyArray<{ readonly path: string; readonly blobId: string }>;
}
