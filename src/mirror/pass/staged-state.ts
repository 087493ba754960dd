import type { Manifest } from '../store/manifest.ts';

/** A new state of a target that waits for being published. */
export interface StagedState {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** The new inventory. */
  readonly manifest: Manifest;
  /** What is published now; null for nothing. */
  readonly previous: Manifest | null;
  /** Where the whole new tree can be read, absolute. */
  readonly folder: string;
}
