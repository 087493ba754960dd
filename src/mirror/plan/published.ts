import { crc32 } from 'node:zlib';

import type { Repository, TargetId } from '../upstream/listing.ts';

/** A published tree, as its manifest and the disk describe it. */
export interface Published {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly repository: Pick<Repository, 'id' | 'name' | 'fullName' | 'url'>;
  readonly branch: string;
  readonly fingerprint: string | null;
  readonly borrowed: readonly string[];
  readonly settled: boolean;
  readonly etag: string | null;
  /** Milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /** See `Manifest.comparedAtMs`. Milliseconds since the epoch. */
  readonly comparedAtMs: number | null;
  /** Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  /** When a person brought it back from the history; null for what the service gave. Milliseconds since the epoch. */
  readonly restoredAtMs: number | null;
  readonly archiveBytes: number;
  /** See `Manifest.missing`. */
  readonly missing: readonly string[];
  readonly fileCount: number;
  readonly sizeBytes: number;
  /** False when the manifest is there and the tree is not. */
  readonly treePresent: boolean;
}

/** A published tree that another instance mirrors: as much of it as says whose place that is. */
export interface OtherTree {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly repositoryId: string;
  readonly fullName: string;
  readonly branch: string;
}

/** The facts of a manifest about its tree as a whole. */
export type TreeSummary = Omit<Published, 'treePresent'>;

/** A summary that is remembered, so that its manifest need not be read again. */
export interface RememberedTree {
  /** Tells the manifest's file from every other: it counts for that very file only. */
  readonly stamp: string;
  readonly summary: TreeSummary;
  /** See {@link checkOf}. */
  readonly check: number;
}

/** The CRC-32 of what is remembered of a tree: what a store spoilt counts as nothing. */
export function checkOf({ stamp, summary }: Pick<RememberedTree, 'stamp' | 'summary'>): number {
  return crc32(`${stamp}\n${JSON.stringify(summary)}`);
}

/** A target, and where its tree stands, as the directory's inventory names it (manual, "On disk"). */
export interface ListedTarget extends TargetId {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
}
