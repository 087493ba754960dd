import type { ArchiveLimits } from '../archive/limits.ts';
import type { State } from '../state/state.ts';
import type { Manifest } from '../store/manifest.ts';
import type { MirrorStore } from '../store/disk.ts';
import type { PassService } from '../upstream/client.ts';
import type { PassEventSink } from './events.ts';
import type { ReportedOnce } from './reported-once.ts';
import type { PullMonitor } from './pull-monitor.ts';
import type { PullQueue } from './queue.ts';
import type { EndedResult } from './results.ts';

/** A new state of a target. */
export interface NewState {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** The new inventory. */
  readonly manifest: Manifest;
  /** The inventory of the tree before; null where nothing was published. */
  readonly previous: Manifest | null;
}

/** A new state of a target that waits for being published. */
export interface StagedState extends NewState {
  /** Where the whole new tree can be read, absolute. */
  readonly folder: string;
}

/** Everything that a pass uses. */
export interface PassContext {
  readonly service: PassService;
  readonly store: MirrorStore;
  readonly state: State;
  readonly archiveLimits: ArchiveLimits;
  /** Called with every new state before it is published; refuses it by throwing. Null where no such check is set. */
  readonly beforePublish: ((state: StagedState, signal: AbortSignal) => Promise<void>) | null;
  /** Called with every new state once it is durable and visible. */
  readonly onPublished: (state: NewState) => void;
  readonly emit: PassEventSink;
  /** Called whenever bytes were written for the pass. */
  readonly onProgress: () => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Remembers reported findings, so that each is reported once for as long as it lasts. */
  readonly reported: ReportedOnce;
  /** Knows how far the pulls are. */
  readonly monitor: PullMonitor;
  /** Where pulls wait for their places, and run. */
  readonly queue: PullQueue<EndedResult>;
}
