import { z } from 'zod';

import { storableTimeMs } from '../../lib/time/file-time.ts';

/** The number of the manifest's format; a reader refuses a greater one. */
export const FORMAT = 1;

const text = z.string();
const textOrNull = text.nullable();
/** Milliseconds since the epoch; on disk as ISO 8601. */
const time = z.iso.datetime({ offset: true }).transform((instant) => Date.parse(instant));
const sizeBytes = z.int().min(0);

/** The version of a workbook, as the listing showed it. */
const workbookSchema = z
  .object({
    id: text,
    version: text,
    author: textOrNull,
    message: textOrNull,
    created_at: textOrNull,
    /** The kind of change; null if the service does not say. */
    action: textOrNull.default(null),
    /** The version before; as `action`. */
    parent: textOrNull.default(null),
  })
  .transform(({ version: versionId, created_at: createdAt, parent: parentId, ...same }) => ({
    ...same,
    versionId,
    createdAt,
    parentId,
  }));

export type ManifestWorkbook = Readonly<z.output<typeof workbookSchema>>;

/** A file of a published tree. Compiled, as there are many. */
const fileSchema = z.compile(
  z
    .object({
      /** Path below the tree, with slashes. */
      path: text.min(1),
      size: sizeBytes,
      /** SHA-256 of the bytes, in hexadecimal digits. */
      sha256: text.regex(/^[0-9a-f]{64}$/),
      /** Bits of `PERMISSION_BITS`, e.g. 0o644; on disk in four octal digits. */
      mode: text.regex(/^0[0-7]{3}$/).transform((digits) => Number.parseInt(digits, 8)),
      /** Whole milliseconds since the epoch. A file system could not store another time: repair would find the file different for ever. */
      mtime: time.transform(storableTimeMs),
      /** CRC-32 of the bytes, as zip archives have it; left out if unknown. */
      crc32: text
        .regex(/^[0-9a-f]{8}$/)
        .transform((digits) => Number.parseInt(digits, 16))
        .exactOptional(),
      /** The version as last listed, if the file is a workbook in the listing. */
      workbook: workbookSchema.exactOptional(),
    })
    .transform(({ size: sizeBytes, mtime: mtimeMs, ...same }) => ({ ...same, sizeBytes, mtimeMs })),
);

export type ManifestFile = Readonly<z.output<typeof fileSchema>>;

/** An entry that the service sent and that is deliberately not in the tree. */
const skippedSchema = z.object({
  path: text,
  // Earlier manifests may name submodules.
  reason: z.enum(['symbolic-link', 'special-file', 'submodule']),
});

export type SkippedEntry = Readonly<z.output<typeof skippedSchema>>;

/** The approval of a held deletion: its author and time. */
const approvalSchema = z
  .object({
    by: text,
    at: time,
    /** Whether nothing but the command that asked the daemon says who it was. */
    by_word: z.boolean(),
  })
  .transform(({ by, at, by_word }) => ({ approvedBy: by, approvedAtMs: at, isByWord: by_word }));

export type ApprovalMark = Readonly<z.output<typeof approvalSchema>>;

const repositorySchema = z
  .object({
    id: text.min(1),
    name: text,
    full_name: text.min(1),
    url: textOrNull,
    /** ISO 8601, as the service gave it; null if it did not. */
    created_at: textOrNull.default(null),
  })
  .transform(({ id, name, full_name: fullName, url, created_at: createdAt }) => ({
    id,
    name,
    fullName,
    url,
    createdAt,
  }));

/** The facts of a manifest, with the names that they have on disk. */
export const manifestSchema = z
  .object({
    format: z.literal(FORMAT),
    repository: repositorySchema,
    branch: text.min(1),
    /** The time of the listing behind the pull; the tree is at least as new. */
    verified_at: time,
    /** When the whole contents were last compared; the tree is at least as new. */
    compared_at: time.nullable().default(null),
    /** When a file of the tree last changed. */
    published_at: time,
    /** When an operator restored the tree from the history; null if the service gave it. */
    restored_at: time.nullable().default(null),
    /** Digest of the fingerprint; null if the service has no list of workbooks. */
    fingerprint: textOrNull,
    /** See `Fingerprint.borrowed`. */
    borrowed: z.array(text).readonly(),
    /** False if the service was still processing the pulled versions. */
    settled: z.boolean(),
    /** Strong entity tag of the contents, for conditional requests; null if the service gives none. */
    etag: textOrNull,
    /**
     * False if some files were compared by size and CRC-32 alone: then the entity tag vouches for contents whose bytes were
     * not all compared. Left out otherwise.
     */
    thorough: z.boolean().exactOptional(),
    /** Bytes of the archive that the tree came from. */
    archive_size: sizeBytes,
    skipped: z.array(skippedSchema).readonly(),
    /** Paths of listed workbooks that the contents lack, as several answers in a row agreed; sorted, and left out if empty. */
    missing: z.array(text).readonly().exactOptional(),
    /** The approval by which a state left the mirror; only in the history, and left out if there was none. */
    approval: approvalSchema.exactOptional(),
    files: z.array(fileSchema).readonly(),
  })
  .transform(({ format: _, archive_size, thorough, ...written }) => {
    const { repository, branch, verified_at, compared_at, published_at, restored_at, ...same } = written;
    return {
      repository,
      branch,
      verifiedAtMs: verified_at,
      comparedAtMs: compared_at ?? verified_at,
      publishedAtMs: published_at,
      restoredAtMs: restored_at,
      ...same,
      archiveBytes: archive_size,
      ...(thorough === undefined ? {} : { isThorough: thorough }),
    };
  });

/** The files of a published tree, sorted by path, and what it was published from. Times in milliseconds since the epoch. */
export type Manifest = Readonly<z.output<typeof manifestSchema>>;

/** The difference between a published tree and the one before it. */
export interface TreeChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** Compares two lists of files by path and bytes. */
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
