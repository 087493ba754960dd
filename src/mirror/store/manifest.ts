/** The bits of a file's mode that a manifest records: bits that do not lend the owner's rights to others (chmod(2)). */
export const PERMISSION_BITS = 0o777;

/** A file of a published tree. */
export interface ManifestFile {
  /** Path below the tree, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  /** SHA-256 of the bytes, in hexadecimal digits. */
  readonly sha256: string;
  /** Of {@link PERMISSION_BITS}, e.g. 0o644. */
  readonly mode: number;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** CRC-32 of the bytes, as zip archives have it; left out if unknown. */
  readonly crc32?: number;
  /** The version as last listed, if the file is a workbook in the listing. */
  readonly workbook?: ManifestWorkbook;
}

/** The version of a workbook, as the listing showed it. */
export interface ManifestWorkbook {
  readonly id: string;
  readonly versionId: string;
  readonly author: string | null;
  readonly message: string | null;
  readonly createdAt: string | null;
  /** The kind of change; null if the service does not say. */
  readonly action: string | null;
  /** The version before; as `action`. */
  readonly parentId: string | null;
}

/** An entry that the service sent and that is deliberately not in the tree. */
export interface SkippedEntry {
  readonly path: string;
  readonly reason: 'symbolic-link' | 'special-file' | 'submodule';
}

/** The approval of a held deletion: its author and time. */
export interface ApprovalMark {
  readonly approvedBy: string;
  /** In milliseconds since the epoch. */
  readonly approvedAtMs: number;
  /** Whether nothing but the command that asked the daemon says who it was. */
  readonly isByWord: boolean;
}

/** The inventory of a published tree, and what it was published from. */
export interface Manifest {
  readonly repository: {
    readonly id: string;
    readonly name: string;
    readonly fullName: string;
    readonly url: string | null;
    /** ISO 8601, as the service gave it; null if it did not. */
    readonly createdAt: string | null;
  };
  readonly branch: string;
  /** The time of the listing behind the pull; the tree is at least as new. Milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /** When the whole contents were last compared; the tree is at least as new. Milliseconds since the epoch. */
  readonly comparedAtMs: number;
  /** When a file of the tree last changed. Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  /** When an operator restored the tree from the history; null if the service gave it. Milliseconds since the epoch. */
  readonly restoredAtMs: number | null;
  /** Digest of the fingerprint; null if the service has no list of workbooks. */
  readonly fingerprint: string | null;
  /** See `Fingerprint.borrowed`. */
  readonly borrowed: readonly string[];
  /** False if the service was still processing the pulled versions. */
  readonly settled: boolean;
  /** Strong entity tag of the contents, for conditional requests; null if the service gives none. */
  readonly etag: string | null;
  /**
   * False if some files were compared by size and CRC-32 alone: then the entity tag vouches for contents whose bytes were
   * not all compared. Left out otherwise.
   */
  readonly isThorough?: boolean;
  /** Bytes of the archive that the tree came from. */
  readonly archiveBytes: number;
  readonly skipped: readonly SkippedEntry[];
  /**
   * Paths of listed workbooks that the contents lack, as several answers in a row agreed; sorted, and left out
   * if empty.
   */
  readonly missing?: readonly string[];
  /** The approval by which a state left the mirror; only in the history, and left out if there was none. */
  readonly approval?: ApprovalMark;
  /** Sorted by path. */
  readonly files: readonly ManifestFile[];
}

/** The difference between a published tree and the one before it. */
export interface TreeChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** Compares two inventories by path and bytes. */
export function treeChanges(before: readonly ManifestFile[], after: readonly ManifestFile[]): TreeChanges {
  const added: string[] = [];
  const changed: string[] = [];
  const old = new Map(before.map((file) => [file.path, file]));
  for (const { path, sha256, sizeBytes } of after) {
    const previous = old.get(path);
    if (previous === undefined) added.push(path);
    else if (previous.sha256 !== sha256 || previous.sizeBytes !== sizeBytes) changed.push(path);
    old.delete(path);
  }
  return { added, changed, removed: [...old.keys()] };
}

/** Whether two states hold the same files. */
export function isUnchanged({ added, changed, removed }: TreeChanges): boolean {
  return added.length + changed.length + removed.length === 0;
}

/** Orders texts by their UTF-16 units: the same in every locale. */
export function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The folders that any of the paths lies in. */
export function foldersWith(paths: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>();
  for (const path of paths) {
    let slash = path.lastIndexOf('/');
    // The parents of a known folder are known, too.
    while (slash > 0 && !folders.has(path.slice(0, slash))) {
      folders.add(path.slice(0, slash));
      slash = path.lastIndexOf('/', slash - 1);
    }
  }
  return folders;
}
