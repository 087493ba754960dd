/** A file of a published tree. */
export interface ManifestFile {
  /** Path below the tree, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  /** SHA-256 of the bytes, in hexadecimal digits. */
  readonly sha256: string;
  /** Permission bits, as `chmod` takes them, e.g. 0o644. */
  readonly mode: number;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** CRC-32 of the bytes, as zip archives have it; left out where it is not known. */
  readonly crc32?: number;
  /** The version as last listed, where the file is a workbook that the listing shows. */
  readonly workbook?: ManifestWorkbook;
}

/** The version of a workbook, as the listing showed it. */
export interface ManifestWorkbook {
  readonly id: string;
  readonly versionId: string;
  readonly author: string | null;
  readonly message: string | null;
  readonly createdAt: string | null;
  /** The kind of change; null where the service does not say, left out by versions of this program that did not ask. */
  readonly action?: string | null;
  /** The version before; as `action`. */
  readonly parentId?: string | null;
}

/** Something that the service sent and that is on purpose not in the tree. */
export interface SkippedEntry {
  readonly path: string;
  readonly reason: 'symbolic-link' | 'special-file';
}

/** The inventory of a published tree, and what it was published from. */
export interface Manifest {
  readonly repository: {
    readonly id: string;
    readonly name: string;
    readonly fullName: string;
    readonly url: string | null;
    /** ISO 8601, as the service gave it; null where it did not, left out by versions of this program that did not ask. */
    readonly createdAt?: string | null;
  };
  readonly branch: string;
  /** When the listing that the tree was pulled under was taken; the tree is at least as new. Milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /**
   * When the whole contents were last compared, of which the tree is no older; null where a version of this program wrote it
   * that compared them at every pull. Milliseconds since the epoch.
   */
  readonly comparedAtMs: number | null;
  /** When a file of the tree last changed. Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  /** When a person brought the tree back from the history; null for what the service gave. Milliseconds since the epoch. */
  readonly restoredAtMs: number | null;
  /** Digest of the fingerprint; null where the service has no list of workbooks. */
  readonly fingerprint: string | null;
  /** See `Fingerprint.borrowed`. */
  readonly borrowed: readonly string[];
  /** False when the service was still processing the versions that were pulled. */
  readonly settled: boolean;
  /** Strong entity tag of the contents, for conditional requests; null where the service gives none. */
  readonly etag: string | null;
  /** Bytes of the archive that the tree came from. */
  readonly archiveBytes: number;
  readonly skipped: readonly SkippedEntry[];
  /** Sorted by path. */
  readonly files: readonly ManifestFile[];
}

/** The number of the manifest's format; a reader refuses a greater one. */
export const MANIFEST_FORMAT = 1;

/** What distinguishes one published tree from the one before it. */
export interface TreeChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** Compares two inventories by path and bytes. */
export function treeChanges(before: readonly ManifestFile[], after: readonly ManifestFile[]): TreeChanges {
  const old = new Map(before.map((file) => [file.path, file]));
  const added: string[] = [];
  const changed: string[] = [];
  for (const file of after) {
    const previous = old.get(file.path);
    if (previous === undefined) added.push(file.path);
    else if (previous.sha256 !== file.sha256 || previous.sizeBytes !== file.sizeBytes)
      changed.push(file.path);
    old.delete(file.path);
  }
  return { added, changed, removed: [...old.keys()] };
}

/** Orders texts by their UTF-16 units: the same everywhere, whatever the locale. */
export function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
