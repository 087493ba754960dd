import type { MirrorEvent, PassFinished, Trigger } from './events.ts';
import type { Difference } from '../store/verify/drift.ts';
import type { ChangeSpan } from '../plan/due-hooks.ts';
import type { Approval, Approvals } from '../plan/guard.ts';
import type { Lease } from '../store/leases/lease.ts';
import type { Manifest, SkippedEntry } from '../store/manifest.ts';
import type { PullLine } from './pull-scheduler.ts';
import type { ProgressMonitor } from './pull-monitor.ts';
import type { TargetRecord } from '../plan/record.ts';
import type { Listing, Repository, TargetId } from '../upstream/listing.ts';
import type { StagedState } from './staged-state.ts';
import type { SelectionCheck } from '../plan/selection-check.ts';
import type { ListedTarget, Published, RememberedTree } from '../plan/targets.ts';
import type { ReportedFailures } from './reported-failures.ts';
import type { ErrorCode } from '../../lib/errors/errors.ts';

/** The service, as a pass needs it. Errors are MirrorErrors. */
export interface ServicePort {
  /** `isUrgent`: a person waits, so that a key which the service refused is tried once more. */
  readonly poll: (signal: AbortSignal, isUrgent: boolean) => Promise<Listing>;
  readonly download: (request: DownloadRequest) => Promise<DownloadAnswer>;
  readonly downloadFile: (request: FileRequest) => Promise<FileAnswer>;
  /** Whether a path exists in the contents of a branch. */
  readonly exists: (
    request: Omit<DownloadRequest, 'etag' | 'destination' | 'onArrived'> & { path: string },
  ) => Promise<boolean>;
}

/** What is to be downloaded, and where to. */
export interface DownloadRequest {
  readonly repository: Repository;
  readonly branch: string;
  readonly etag: string | null;
  readonly destination: string;
  /** Is told how much has arrived, and of how much, where the answer says so. */
  readonly onArrived: (doneBytes: number, totalBytes: number | null) => void;
  readonly signal: AbortSignal;
}

/** What the service gave. */
export type DownloadAnswer =
  | {
      readonly kind: 'archive';
      readonly sizeBytes: number;
      readonly etag: string | null;
      /** Whether the archive has the times that the files have in a mirror, as that of a replica has. */
      readonly hasFileTimes: boolean;
    }
  | { readonly kind: 'unchanged' }
  /** `isCertain`: the service said plainly that there is nothing. */
  | { readonly kind: 'not-found'; readonly isCertain: boolean };

/** A single file that is to be downloaded, and what the list of workbooks says of it. */
export interface FileRequest extends Omit<DownloadRequest, 'etag'> {
  readonly path: string;
  readonly expected: { readonly sizeBytes?: number; readonly sha256?: string };
}

/** What the service gave for a path. */
export type FileAnswer =
  | { readonly kind: 'file'; readonly sizeBytes: number; readonly sha256: string; readonly crc32: number }
  | { readonly kind: 'not-found' }
  /** Another file than was expected. */
  | { readonly kind: 'different' };

/** An archive under the entry policy. */
export interface ArchivePort {
  readonly entries: readonly ArchiveEntryPort[];
  readonly skipped: readonly SkippedEntry[];
  /** Brings entries to files, checked; gives what became of them, in the order of the orders. */
  readonly extract: (
    orders: readonly ExtractionOrder[],
    options: {
      readonly sharing: Sharing;
      readonly signal: AbortSignal;
      readonly onBytes: (bytes: number) => void;
    },
  ) => Promise<readonly Extracted[]>;
  readonly close: () => Promise<void>;
}

/** A file in an archive. */
export interface ArchiveEntryPort {
  readonly path: string;
  readonly sizeBytes: number;
  readonly crc32: number;
  readonly modifiedAtMs: number;
}

/** What is to become of an entry. Places are absolute paths; times are whole milliseconds since the epoch. */
export interface ExtractionOrder {
  readonly entry: ArchiveEntryPort;
  /** Where its file is made, unless the known one is the same. */
  readonly destination: string;
  /** For a file with other bytes than the known one. */
  readonly mtimeMs: number;
  /** For a file with the bytes that the known one should have. */
  readonly keptTimeMs: number;
  /** The published file of this path, where it has this size. */
  readonly known: {
    readonly place: string;
    readonly sha256: string;
    readonly mode: number;
    readonly mtimeMs: number;
    /** Whether it may stay where it has the same bytes. */
    readonly mayStay: boolean;
    /** Whether the same size and CRC-32 say that it has the same bytes. */
    readonly isSameByChecksum: boolean;
  } | null;
  /** Published files elsewhere that may have the same bytes. */
  readonly twins: readonly TwinFile[];
}

/** A published file that may have the bytes of another one. */
export interface TwinFile {
  readonly place: string;
  readonly sha256: string;
}

/** How files with the same bytes may be stored once: not at all, by shared blocks alone, or else as hard links, too. */
export type Sharing = 'none' | 'blocks' | 'blocks-or-links';

/** What became of an entry: the known file stays, or a file was made. */
export type Extracted =
  /** `isRead`: its bytes were compared, and not just its size and CRC-32. */
  | { readonly kind: 'kept'; readonly isRead: boolean }
  | {
      readonly kind: 'written';
      readonly sha256: string;
      readonly mode: number;
      /** Whether its bytes are those that the known file should have. */
      readonly isRewritten: boolean;
      /** Whether it shares its storage with a twin. */
      readonly isShared: boolean;
    };

/** A private place in which a target's new state is made ready. */
export interface StagePort {
  readonly archivePath: string;
  /** Where a file of the new tree is to be made: an absolute path. */
  readonly placeOf: (path: string) => string;
  /** Where the published file of a path stands: an absolute path. */
  readonly publishedPlaceOf: (path: string) => string;
  /** Makes the folders around the place of a file. */
  readonly makeRoom: (path: string) => Promise<void>;
  /** Removes what was made at the place of a file, if anything was. */
  readonly drop: (path: string) => Promise<void>;
  /** Removes all that was made for the new tree. */
  readonly startAnew: () => Promise<void>;
  /** Takes a file into the new tree that was made at its place. @param isShared whether it is a name of another target's file */
  readonly adopt: (path: string, isShared?: boolean) => void;
  /** Gives an adopted file its time. @returns its permission bits */
  readonly setTime: (path: string, mtimeMs: number) => Promise<number>;
  /** Removes the archive, of which nothing is needed any more: so it need not be flushed with what came from it. */
  readonly dropArchive: () => Promise<void>;
  /** Published files that may have the same bytes as entries, for each of them, to be shared as `sharing` says. */
  readonly twinsOf: (
    entries: readonly Pick<ArchiveEntryPort, 'sizeBytes' | 'crc32'>[],
  ) => Promise<readonly (readonly TwinFile[])[]>;
  readonly sharing: Sharing;
  readonly discard: () => Promise<void>;
}

/** The mirror directory, as a pass needs it. */
export interface StorePort<Stage extends StagePort = StagePort> {
  /** Completes what errors interrupted before, and leaves alone the stages that are in use; gives the targets that it completed. */
  readonly settle: (signal: AbortSignal) => Promise<readonly string[]>;
  /** What is published, and the paths of which that cannot be said. */
  readonly inventory: () => Promise<{
    readonly published: readonly Published[];
    readonly unreadable: readonly string[];
    readonly trees: ReadonlyMap<string, RememberedTree>;
  }>;
  /** What is to be remembered of a tree that was just published with this manifest. */
  readonly treeToRemember: (path: string, manifest: Manifest) => Promise<RememberedTree | null>;
  /** The targets of the inventory that are gone with their manifests, and what is wrong with the inventory, if anything is. */
  readonly lostTargets: () => Promise<{
    readonly lost: readonly ListedTarget[];
    readonly problem: string | null;
  }>;
  /** Makes the inventory name what is published, and the lost targets that are still to be pulled. */
  readonly saveTargets: (awaited: readonly ListedTarget[]) => Promise<void>;
  readonly manifest: (path: string) => Promise<Manifest | null>;
  /** How a published tree differs from its manifest; null when it is not there at all. */
  readonly examine: (
    path: string,
    manifest: Manifest,
    depth: 'facts' | 'bytes',
    signal: AbortSignal,
  ) => Promise<readonly Difference[] | null>;
  /** The other targets that have a modified file in common with a tree, as a hard link. */
  readonly sharersOf: (path: string, differences: readonly Difference[]) => Promise<readonly string[]>;
  readonly stage: (currentPath: string) => Promise<Stage>;
  /** Shows someone the whole new tree of a stage, to be read only. Gives whether it still is what its manifest says. */
  readonly show: (
    stage: Stage,
    manifest: Manifest,
    look: (folder: string) => Promise<void>,
    signal: AbortSignal,
  ) => Promise<boolean>;
  readonly publish: (
    stage: Stage,
    path: string,
    manifest: Manifest,
    repair: {
      readonly rewritten: readonly string[];
      readonly isDamaged: boolean;
      readonly isApprovedDeletion: boolean;
    },
    signal: AbortSignal,
  ) => Promise<{ readonly method: string }>;
  readonly move: (from: string, to: string, manifest: Manifest, signal: AbortSignal) => Promise<void>;
  readonly retire: (path: string, signal: AbortSignal) => Promise<void>;
  /** Removes what is kept no longer; gives what the history lost. */
  readonly sweep: (historyNowMs: number, signal: AbortSignal) => Promise<readonly string[]>;
  /** The leases that publishing waits for: what would be published fails with a `LeasedError`. */
  readonly leases: () => Promise<readonly Lease[]>;
  /** The targets, as below `mirror/`, that a person wants tried at once. */
  readonly retries: () => Promise<ReadonlySet<string>>;
  readonly withdrawRetries: (targets: Iterable<string>) => Promise<void>;
  /** What persons approved and that did not go through yet. */
  readonly approvals: () => Promise<Approvals>;
  /** Notes all files that a held deletion of files is about; null when none is held any more. */
  readonly noteHeldFiles: (target: TargetId, paths: readonly string[] | null) => Promise<void>;
  /** Notes the trees that are still to be put right, for the next process. */
  readonly noteDrifted: (paths: readonly string[]) => Promise<void>;
  readonly withdrawApprovals: (approvals: readonly Approval[]) => Promise<void>;
}

/** What is remembered between passes. A record that cannot be read counts as none. */
export interface StatePort {
  readonly records: () => Promise<ReadonlyMap<string, TargetRecord>>;
  readonly saveRecords: (records: readonly TargetRecord[]) => Promise<void>;
  readonly forgetRecords: (records: readonly TargetRecord[]) => Promise<void>;
  readonly reportedFailures: () => Promise<ReportedFailures>;
  readonly saveReportedFailures: (reported: ReportedFailures) => Promise<void>;
  readonly savePass: (pass: LastPass) => Promise<void>;
}

/** How the last pass went. Times in milliseconds since the epoch. */
export interface LastPass {
  readonly trigger: Trigger;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  readonly summary: PassFinished | null;
  readonly failure: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint: string | null;
  } | null;
  /** What the settings selected; null where the pass did not come to that. */
  readonly selection: SelectionCheck | null;
}

/** All that a pass works with. */
export interface PassContext<Stage extends StagePort = StagePort> {
  readonly service: ServicePort;
  readonly store: StorePort<Stage>;
  readonly state: StatePort;
  readonly openArchive: (path: string) => Promise<ArchivePort>;
  /** Is shown every new state before anybody else, and refuses it by throwing; null where nobody wants to see it. */
  readonly beforePublish: ((state: StagedState, signal: AbortSignal) => Promise<void>) | null;
  /** Is told of every new state once it is durable and visible, and how it differs from the one before. */
  readonly onPublished: (target: string, span: ChangeSpan) => void;
  readonly emit: (event: MirrorEvent) => void;
  /** Called whenever bytes were written for the pass. */
  readonly onProgress: () => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** What was wrong with the answers of the pass before, and is reported. */
  readonly knownProblems: Set<string>;
  /** What in the settings selected nothing in the pass before, and is reported. */
  readonly knownUnmatched: Set<string>;
  /** The paths of the lost targets that are reported. */
  readonly knownLost: Set<string>;
  /** Knows how far the pulls are. */
  readonly monitor: ProgressMonitor;
  /** Where pulls wait for their turns, and go on. */
  readonly line: PullLine;
  /** Paths of trees that were found to differ from their manifests: the next pass puts them right. */
  readonly drifted: Set<string>;
}
