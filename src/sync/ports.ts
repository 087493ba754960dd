import type { MirrorEvent, PassFinished, Trigger } from '../model/events.ts';
import type { Difference } from '../model/drift.ts';
import type { ChangeSpan } from '../model/due-hooks.ts';
import type { Approval, Approvals } from '../model/guard.ts';
import type { Lease } from '../model/lease.ts';
import type { Manifest, ManifestFile, SkippedEntry } from '../model/manifest.ts';
import type { TargetRecord } from '../model/record.ts';
import type { Listing, Repository } from '../model/service.ts';
import type { StagedState } from '../model/staged-state.ts';
import type { Published } from '../model/targets.ts';
import type { ReportedFailures } from '../model/upstream.ts';
import type { ErrorCode } from '../model/errors.ts';

/** The service, as a pass needs it. Errors are MirrorErrors. */
export interface ServicePort {
  /** `isUrgent`: a person waits, so that a key which the service refused is tried once more. */
  readonly poll: (signal: AbortSignal, isUrgent: boolean) => Promise<Listing>;
  readonly download: (request: DownloadRequest) => Promise<DownloadAnswer>;
  /** Whether a path exists in the contents of a branch. */
  readonly exists: (
    request: Omit<DownloadRequest, 'etag' | 'destination'> & { path: string },
  ) => Promise<boolean>;
}

/** What is to be downloaded, and where to. */
export interface DownloadRequest {
  readonly repository: Repository;
  readonly branch: string;
  readonly etag: string | null;
  readonly destination: string;
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

/** An archive under the entry policy. */
export interface ArchivePort {
  readonly entries: readonly ArchiveEntryPort[];
  readonly skipped: readonly SkippedEntry[];
  readonly close: () => Promise<void>;
}

/** A file in an archive; its bytes are checked by the time the last of them is given. */
export interface ArchiveEntryPort {
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedAtMs: number;
  readonly read: () => AsyncIterable<Uint8Array>;
  /** Null for entries too great for memory. */
  readonly readWhole: () => Promise<Uint8Array | null>;
}

/** A private place in which a target's new state is made ready. */
export interface StagePort {
  readonly archivePath: string;
  readonly write: (
    path: string,
    mtimeMs: number,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ) => Promise<ManifestFile>;
  readonly drop: (path: string) => Promise<void>;
  readonly isIntact: (file: ManifestFile) => Promise<boolean>;
  readonly discard: () => Promise<void>;
}

/** The mirror directory, as a pass needs it. */
export interface StorePort<Stage extends StagePort = StagePort> {
  /** Completes what errors interrupted before, while no stage is in use; gives the targets that it completed. */
  readonly settle: (signal: AbortSignal) => Promise<readonly string[]>;
  /** What is published, and the paths of which that cannot be said. */
  readonly inventory: () => Promise<{
    readonly published: readonly Published[];
    readonly unreadable: readonly string[];
  }>;
  readonly manifest: (path: string) => Promise<Manifest | null>;
  /** How a published tree differs from its manifest; null when it is not there at all. */
  readonly examine: (
    path: string,
    manifest: Manifest,
    depth: 'facts' | 'bytes',
    signal: AbortSignal,
  ) => Promise<readonly Difference[] | null>;
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
    repair: { readonly rewritten: readonly string[]; readonly isDamaged: boolean },
    signal: AbortSignal,
  ) => Promise<{ readonly method: string }>;
  readonly move: (from: string, to: string, manifest: Manifest, signal: AbortSignal) => Promise<void>;
  readonly retire: (path: string, signal: AbortSignal) => Promise<void>;
  /** Removes what is kept no longer; gives what the history lost. */
  readonly sweep: (historyNowMs: number, signal: AbortSignal) => Promise<readonly string[]>;
  /** The leases that publishing waits for: what would be published fails with a `LeasedError`. */
  readonly leases: () => Promise<readonly Lease[]>;
  /** What persons approved and that did not go through yet. */
  readonly approvals: () => Promise<Approvals>;
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
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** What was wrong with the answers of the pass before, and is reported. */
  readonly knownProblems: Set<string>;
  /** Paths of trees that were found to differ from their manifests: the next pass puts them right. */
  readonly drifted: Set<string>;
}
