import type { IncomingMessage } from 'node:http';

/** The data that the service gives out, which are real Git repositories or a mirror, and the requests to change it. */

/** A repository as the current API gives it (service specification, section 2.1). */
export interface Repository {
  readonly id: string;
  readonly name: string;
  readonly full_name: string;
  readonly url: string | null;
  /** Null where nobody remembers it. */
  readonly created_at: string | null;
}

/** A part of a file, both ends included, in bytes from its beginning. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Bytes as they come; they fail rather than end early. Opened when they are wanted, and given up when the signal says so. */
export type Bytes = AsyncIterable<Uint8Array>;

/** A file, or a folder as a zip archive, at a path of a branch. */
export interface Content {
  readonly kind: 'file' | 'archive';
  /** Strong entity tag (RFC 9110, section 8.8.3): the same bytes have it, and no others. */
  readonly etag: string;
  /** Null where it is unknown until the last byte is made: then no part can be asked for. */
  readonly sizeBytes: number | null;
  /** When this was last known to be what the service has, in milliseconds since the epoch; left out by the service itself. */
  readonly verifiedAtMs?: number;
  /** @param range only where the size is known */
  readonly open: (signal: AbortSignal, range?: ByteRange) => Bytes;
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
  /** Names the bytes and the kind of the file, where the library knows: rows that share it stand alike. */
  readonly contentKey?: string;
  /** Size in bytes and SHA-256 of the file, where the library knows them. */
  readonly file?: { readonly size: number; readonly digest: string };
}

/** How far the service is with a workbook (sections 2.3 and 2.4). */
export interface ProcessingStatus {
  readonly status: 'processing' | 'failure' | 'success';
  /** How many versions are being processed, and have failed. */
  readonly processing: number;
  readonly failure: number;
}

/** The workbooks of all repositories at one moment. */
export interface Workbooks {
  /** Sorted by id and branch; the same array as long as nothing has changed. */
  readonly rows: readonly WorkbookRow[];
  readonly standingOf: (row: WorkbookRow) => ProcessingStatus;
}

/** Where everything that can be read comes from. */
export interface Library {
  readonly repositories: () => Promise<readonly Repository[]>;
  /**
   * Finds what stands at a path.
   * @param branch null for the default branch
   * @param path without a slash at either end; empty for the whole repository
   * @param signal ends the search when the client is gone
   * @throws RequestError 404 for a branch or path that does not exist, 503 for what is not there yet, the reason of `signal`
   */
  readonly content: (
    repository: Repository,
    branch: string | null,
    path: string,
    signal?: AbortSignal,
  ) => Promise<Content>;
  readonly workbooks: () => Promise<Workbooks>;
  /**
   * The repositories as they were known a moment ago. A caller that misses one among them asks for `repositories`. Left out where that
   * costs nothing.
   */
  readonly knownRepositories?: () => Promise<readonly Repository[]>;
  /**
   * When that of it which was verified longest ago was last known to be what the service has, in milliseconds since the epoch; null
   * for nothing at all, left out by the service itself.
   */
  readonly verifiedAtMs?: () => Promise<number | null>;
}

/** An external repository to connect, as a client names it (section 4.1). */
export interface ExternalRepository {
  readonly url: string;
  readonly username: string | null;
  readonly password: string | null;
}

/** Files that were received, to become one commit. */
export interface Upload {
  readonly author: string;
  /** Empty for the default branch. */
  readonly branch: string;
  readonly message: string;
  readonly files: ReadonlyArray<{ readonly path: string; readonly blobId: string }>;
}

/** The two programs of Git's protocol over HTTP (gitprotocol-http(5)). */
export const GIT_PROGRAMS = ['git-upload-pack', 'git-receive-pack'] as const;
export type GitProgram = (typeof GIT_PROGRAMS)[number];

/** A request of a git client. */
export interface GitRequest {
  /** Null for one that names no program, or another one. */
  readonly program: GitProgram | null;
  /** Whether it asks for the list of branches, as a client does first. */
  readonly isAdvertisement: boolean;
  readonly method: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: IncomingMessage;
}
