import { z } from 'zod';

import { nameFault, treeFault } from '../../lib/paths/file-name.ts';
import { parseSliced, parseWhole, type SlicedJson } from '../../lib/text/sliced-json.ts';
import { storableTimeMs } from '../../lib/time/file-time.ts';
import { type ApprovalMark, byCodeUnits, type Manifest, type ManifestFile } from './manifest.ts';

/** The number of the manifest's format; a reader refuses a greater one. */
const FORMAT = 1;

const instant = z.iso.datetime({ offset: true });
const text = z.string();
const textOrNull = text.nullable();

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  repository: z.object({
    id: text.min(1),
    name: text,
    full_name: text.min(1),
    url: textOrNull,
    created_at: textOrNull.default(null),
  }),
  branch: text.min(1),
  verified_at: instant,
  compared_at: instant.nullable().default(null),
  published_at: instant,
  restored_at: instant.nullable().default(null),
  fingerprint: textOrNull,
  borrowed: z.array(text),
  settled: z.boolean(),
  etag: textOrNull,
  thorough: z.boolean().optional(),
  archive_size: z.int().min(0),
  skipped: z.array(z.object({ path: text, reason: z.enum(['symbolic-link', 'special-file', 'submodule']) })),
  missing: z.array(text).optional(),
  approval: z.object({ by: text, at: instant, by_word: z.boolean() }).optional(),
  // There may be very many files: each is parsed separately.
  files: z.custom<readonly unknown[]>(Array.isArray),
});

/** A file of a manifest. Compiled, as there are many. */
const fileSchema = z.compile(
  z.object({
    crc32: text.regex(/^[0-9a-f]{8}$/).optional(),
    // Of `PERMISSION_BITS` only.
    mode: text.regex(/^0[0-7]{3}$/),
    mtime: instant,
    path: text.min(1),
    sha256: text.regex(/^[0-9a-f]{64}$/),
    size: z.int().min(0),
    workbook: z
      .object({
        action: textOrNull.default(null),
        author: textOrNull,
        created_at: textOrNull,
        id: text,
        message: textOrNull,
        parent: textOrNull.default(null),
        version: text,
      })
      .optional(),
  }),
);

type FileOnDisk = z.input<typeof fileSchema>;

/** Sorts the keys of every object, so that the same inventory always gives the same text. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => byCodeUnits(a, b)));
}

/** How many files become text at a time: the text of a great tree is longer than the data that it is made from. */
const SLICE_FILES = 1000;

/** The manifest as it is written, in pieces: JSON with sorted keys and paths (manual, "Manifests"). */
export function* formatManifest(manifest: Manifest): Generator<string, void> {
  const [start, end] = aroundFiles(manifest);
  const files = manifest.files.toSorted((a, b) => byCodeUnits(a.path, b.path));
  yield start;
  for (let index = 0; index < files.length; index += SLICE_FILES) {
    const slice = files.slice(index, index + SLICE_FILES).map(fileToDisk);
    const sliceText = JSON.stringify({ files: slice }, null, 1).slice(
      BEFORE_FILES.length,
      -AFTER_FILES.length,
    );
    yield index === 0 ? sliceText : `,${sliceText}`;
  }
  yield `${files.length === 0 ? '' : '\n '}${end}\n`;
}

const BEFORE_FILES = '{\n "files": [';
const AFTER_FILES = '\n ]\n}';

/** The text before the files, up to the bracket, and the text after them. */
function aroundFiles(manifest: Manifest): readonly [string, string] {
  const { repository, restoredAtMs, isThorough, missing = [], approval } = manifest;
  const onDisk: z.input<typeof manifestSchema> = {
    format: FORMAT,
    repository: {
      id: repository.id,
      name: repository.name,
      full_name: repository.fullName,
      url: repository.url,
      created_at: repository.createdAt,
    },
    branch: manifest.branch,
    verified_at: instantText(manifest.verifiedAtMs),
    compared_at: instantText(manifest.comparedAtMs),
    published_at: instantText(manifest.publishedAtMs),
    ...(restoredAtMs === null ? {} : { restored_at: instantText(restoredAtMs) }),
    fingerprint: manifest.fingerprint,
    borrowed: [...manifest.borrowed],
    settled: manifest.settled,
    etag: manifest.etag,
    ...(isThorough === false ? { thorough: false } : {}),
    archive_size: manifest.archiveBytes,
    skipped: manifest.skipped.map((entry) => ({ ...entry })),
    ...(missing.length === 0 ? {} : { missing: [...missing] }),
    ...(approval === undefined ? {} : { approval: approvalToDisk(approval) }),
    files: [],
  };
  const whole = JSON.stringify(onDisk, sortKeys, 1);
  // No text within JSON contains a line break.
  const bracket = whole.indexOf('\n "files": []') + '\n "files": ['.length;
  return [whole.slice(0, bracket), whole.slice(bracket)];
}

function approvalToDisk({ approvedBy, approvedAtMs, isByWord }: ApprovalMark) {
  return { by: approvedBy, at: instantText(approvedAtMs), by_word: isByWord };
}

/** Formats a time in milliseconds since the epoch. @throws RangeError for an invalid number */
function instantText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** A file with sorted keys; JSON leaves out undefined ones. */
function fileToDisk({ crc32, mode, mtimeMs, path, sha256, sizeBytes, workbook }: ManifestFile): FileOnDisk {
  return {
    crc32: crc32?.toString(16).padStart(8, '0'),
    mode: mode.toString(8).padStart(4, '0'),
    mtime: instantText(mtimeMs),
    path,
    sha256,
    size: sizeBytes,
    workbook: workbook && {
      action: workbook.action,
      author: workbook.author,
      created_at: workbook.createdAt,
      id: workbook.id,
      message: workbook.message,
      parent: workbook.parentId,
      version: workbook.versionId,
    },
  };
}

/** A text that should be a manifest. */
export interface ManifestReading {
  /** Null if it is not a manifest of this format, and so proves nothing; then `problem` says why. */
  readonly manifest: Manifest | null;
  /** A sentence without its full stop. */
  readonly problem: string | null;
}

/**
 * Parses a manifest's text. Anyone who can write the directory, or a backup of it, may have written it: its paths and modes must pass
 * the rules for archives before anything relies on them.
 */
export function parseManifest(json: Buffer): ManifestReading {
  const refused = (problem: string): ManifestReading => ({ manifest: null, problem });
  const notThere = (field: string): ManifestReading =>
    refused(`its field ${JSON.stringify(field)} is not what a manifest has there`);
  const parts = partsOf(json, parseSliced) ?? partsOf(json, parseWhole);
  if (parts === null) return refused('it is not JSON');
  const { object, files, hasOtherFile } = parts;
  const { data, error } = manifestSchema.safeParse(object);
  if (data === undefined) return notThere(error.issues[0]?.path.join('.') ?? '');
  if (hasOtherFile) return notThere(`files.${files.length}`);
  const skippedFault = data.skipped.find(({ path }) => nameFault(path) !== null);
  const fault =
    treeFault(files.map(({ path }) => path)) ??
    (skippedFault && { path: skippedFault.path, fault: nameFault(skippedFault.path) ?? '' });
  if (fault !== undefined) return refused(`its file ${JSON.stringify(fault.path)} ${fault.fault}`);
  return { manifest: manifestFrom(data, files), problem: null };
}

/** The manifest, and its files up to the first entry that describes no file; null if the text is not JSON, or not in the layout that `parse` expects. */
function partsOf(json: Buffer, parse: (json: Buffer, key: string) => SlicedJson) {
  const files: ManifestFile[] = [];
  let hasOtherFile = false;
  try {
    const { object, elements } = parse(json, 'files');
    for (const element of elements) {
      const { data } = fileSchema.safeParse(element);
      if (data === undefined) hasOtherFile = true;
      else if (!hasOtherFile) files.push(fileFromDisk(data));
    }
    return { object, files, hasOtherFile };
  } catch {
    return null;
  }
}

function manifestFrom(data: z.infer<typeof manifestSchema>, files: readonly ManifestFile[]): Manifest {
  const { repository, restored_at: restoredAt, missing, approval } = data;
  const verifiedAtMs = Date.parse(data.verified_at);
  return {
    repository: {
      id: repository.id,
      name: repository.name,
      fullName: repository.full_name,
      url: repository.url,
      createdAt: repository.created_at,
    },
    branch: data.branch,
    verifiedAtMs,
    comparedAtMs: data.compared_at === null ? verifiedAtMs : Date.parse(data.compared_at),
    publishedAtMs: Date.parse(data.published_at),
    restoredAtMs: restoredAt === null ? null : Date.parse(restoredAt),
    fingerprint: data.fingerprint,
    borrowed: data.borrowed,
    settled: data.settled,
    etag: data.etag,
    ...(data.thorough === false ? { isThorough: false } : {}),
    archiveBytes: data.archive_size,
    skipped: data.skipped,
    ...(missing === undefined ? {} : { missing }),
    ...(approval === undefined ? {} : { approval: approvalFromDisk(approval) }),
    files,
  };
}

function approvalFromDisk({ by, at, by_word: isByWord }: ReturnType<typeof approvalToDisk>): ApprovalMark {
  return { approvedBy: by, approvedAtMs: Date.parse(at), isByWord };
}

function fileFromDisk(data: z.infer<typeof fileSchema>): ManifestFile {
  const { crc32, mode, mtime, path, sha256, size, workbook } = data;
  return {
    path,
    sizeBytes: size,
    sha256,
    mode: Number.parseInt(mode, 8),
    // A file system could not store another time: repair would find the file different for ever.
    mtimeMs: storableTimeMs(Date.parse(mtime)),
    ...(crc32 === undefined ? {} : { crc32: Number.parseInt(crc32, 16) }),
    ...(workbook === undefined ? {} : { workbook: workbookFromDisk(workbook) }),
  };
}

function workbookFromDisk({
  version: versionId,
  created_at: createdAt,
  parent: parentId,
  ...same
}: NonNullable<z.infer<typeof fileSchema>['workbook']>): NonNullable<ManifestFile['workbook']> {
  return { ...same, versionId, createdAt, parentId };
}
