import type { Manifest } from '../../mirror/store/manifest.ts';
import type { TargetRecord } from '../../mirror/plan/record.ts';

/** The published mirror, as a replica reads it. Nothing in it is written or locked. */
export interface MirrorPort {
  /** The folder of the published trees. */
  readonly mirror: string;
  /** The folder of their manifests, `<repository>/<branch>.json`. */
  readonly manifests: string;
  /** Reads a manifest's text; null where it cannot be understood. */
  readonly parseManifest: (text: string) => Manifest | null;
  /**
   * What the daemon remembers of the targets, by `targetKey`: it verifies what did not change without touching the manifest. None
   * where it is not there, as in a backup.
   */
  readonly records: () => Promise<ReadonlyMap<string, TargetRecord>>;
}

/** Something that a replica found wrong while it read. */
export interface ReplicaTrouble {
  /** `<repository>/<branch>`. */
  readonly target: string;
  /** Below the tree; empty for the tree itself. */
  readonly path: string;
  readonly what: string;
}
