import { z } from 'zod';

import { nameFault, treeFault } from '../../lib/paths/file-name.ts';
import { parseSliced, parseWhole, type SlicedJson } from '../../lib/text/sliced-json.ts';
import { storableTimeMs } from '../../lib/time/file-time.ts';

/** The number of the manifest's format; a reader refuses a greater one. */
const FORMAT = 1;

const text = z.string();
const textOrNull = text.nullable();
/** Milliseconds since the epoch; on disk as ISO 8601. */
const time = z.iso.datetime({ offset: true }).transform((instant) => Date.parse(instant));
const sizeBytes = z.int().min(0);

/** The version of a workbook, as the listing showed it. */
const workbookSchema = z.object({
  id: text,
  versionId: text,
  author: textOrNull,
  message: textOrNull,
  createdAt: textOrNull,
  /** The kind of change; null if the service does not say. */
  action: textOrNull.default(null),
  /** The version before; as `action`. */
  parentId: textOrNull.default(null),
});

export type ManifestWorkbook = Readonly<z.output<typeof workbookSchema>>;

/** A file of a published tree. Compiled, as there are many. */
const fileSchema = z.compile(
  z.object({
    /** Path below the tree, with slashes. */
    path: text.min(1),
    sizeBytes,
    /** SHA-256 of the bytes, in hexadecimal digits. */
    sha256: text.regex(/^[0-9a-f]{64}$/),
    /** Of `PERMISSION_BITS`, e.g. 0o644; on disk in four octal digits. */
    mode: text.regex(/^0[0-7]{3}$/).transform((digits) => Number.parseInt(digits, 8)),
    /** Whole milliseconds since the epoch. A file system could not store another time: repair would find the file different for ever. */
    mtimeMs: time.transform(storableTimeMs),
    /** CRC-32 of the bytes, as zip archives have it; left out if unknown. */
    crc32: text
      .regex(/^[0-9a-f]{8}$/)
      .transform((digits) => Number.parseInt(digits, 16))
      .exactOptional(),
    /** The version as last listed, if the file is a workbook in the listing. */
    workbook: workbookSchema.exactOptional(),
  }),
);

export type ManifestFile = Readonly<z.output<typeof fileSchema>>;

/** An entry that the service sent and that is deliberately not in the tree. */
const skippedSchema = z.object({
  path: text,
  reason: z.enum(['symbolic-link', 'special-file', 'submodule']),
});

export type SkippedEntry = Readonly<z.output<typeof skippedSchema>>;

/** The approval of a held deletion: its author and time. */
const approvalSchema = z.object({
  approvedBy: text,
  approvedAtMs: time,
  /** Whether nothing but the command that asked the daemon says who it was. */
  isByWord: z.boolean(),
});

export type ApprovalMark = Readonly<z.output<typeof approvalSchema>>;

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  repository: z.object({
    id: text.min(1),
    name: text,
    fullName: text.min(1),
    url: textOrNull,
    /** ISO 8601, as the service gave it; null if it did not. */
    createdAt: textOrNull.default(null),
  }),
  branch: text.min(1),
  /** The time of the listing behind the pull; the tree is at least as new. */
  verifiedAtMs: time,
  comparedAtMs: time.nullable().default(null),
  /** When a file of the tree last changed. */
  publishedAtMs: time,
  /** When an operator restored the tree from the history; null if the service gave it. */
  restoredAtMs: time.nullable().default(null),
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
  isThorough: z.boolean().exactOptional(),
  /** Bytes of the archive that the tree came from. */
  archiveBytes: sizeBytes,
  skipped: z.array(skippedSchema).readonly(),
  /** Paths of listed workbooks that the contents lack, as several answers in a row agreed; sorted, and left out if empty. */
  missing: z.array(text).readonly().exactOptional(),
  /** The approval by which a state left the mirror; only in the history, and left out if there was none. */
  approval: approvalSchema.exactOptional(),
  // There may be very many files: each is parsed separately.
  files: z.custom<readonly unknown[]>(Array.isArray),
});

/** The inventory of a published tree, and what it was published from. Times in milliseconds since the epoch. */
export interface Manifest extends Readonly<
  Omit<z.output<typeof manifestSchema>, 'format' | 'comparedAtMs' | 'files'>
> {
  /** When the whole contents were last compared; the tree is at least as new. */
  readonly comparedAtMs: number;
  /** Sorted by path. */
  readonly files: readonly ManifestFile[];
}

function instantText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** All fields, sorted by their names on disk: these, the names in memory, and the text of a number that is no number on disk. */
const FIELDS: readonly (readonly [disk: string, memory: string, write?: (value: number) => string])[] = [
  ['action', 'action'],
  ['approval', 'approval'],
  ['archive_size', 'archiveBytes'],
  ['at', 'approvedAtMs', instantText],
  ['author', 'author'],
  ['borrowed', 'borrowed'],
  ['branch', 'branch'],
  ['by', 'approvedBy'],
  ['by_word', 'isByWord'],
  ['compared_at', 'comparedAtMs', instantText],
  ['crc32', 'crc32', (crc32) => crc32.toString(16).padStart(8, '0')],
  ['created_at', 'createdAt'],
  ['etag', 'etag'],
  ['files', 'files'],
  ['fingerprint', 'fingerprint'],
  ['format', 'format'],
  ['full_name', 'fullName'],
  ['id', 'id'],
  ['message', 'message'],
  ['missing', 'missing'],
  ['mode', 'mode', (mode) => mode.toString(8).padStart(4, '0')],
  ['mtime', 'mtimeMs', instantText],
  ['name', 'name'],
  ['parent', 'parentId'],
  ['path', 'path'],
  ['published_at', 'publishedAtMs', instantText],
  ['reason', 'reason'],
  ['repository', 'repository'],
  ['restored_at', 'restoredAtMs', instantText],
  ['settled', 'settled'],
  ['sha256', 'sha256'],
  ['size', 'sizeBytes'],
  ['skipped', 'skipped'],
  ['thorough', 'isThorough'],
  ['url', 'url'],
  ['verified_at', 'verifiedAtMs', instantText],
  ['version', 'versionId'],
  ['workbook', 'workbook'],
];

/** An object with the names on disk, sorted, so that the same inventory always gives the same text. */
function toDisk(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toDisk);
  if (typeof value !== 'object' || value === null) return value;
  const onDisk: Record<string, unknown> = {};
  for (const [disk, memory, write] of FIELDS) {
    const field: unknown = Reflect.get(value, memory);
    if (field === undefined) continue;
    onDisk[disk] = typeof field === 'number' ? (write?.(field) ?? field) : toDisk(field);
  }
  return onDisk;
}

const MEMORY_NAMES = new Map(FIELDS.map(([disk, memory]) => [disk, memory]));

/** An object with the names in memory, without unknown fields. */
function fromDisk(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fromDisk);
  if (typeof value !== 'object' || value === null) return value;
  const inMemory: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    const memory = MEMORY_NAMES.get(name);
    if (memory !== undefined) inMemory[memory] = fromDisk(field);
  }
  return inMemory;
}

/** How many files become text at a time: the text of a great tree is longer than the data that it is made from. */
const SLICE_FILES = 1000;

/** The manifest as it is written, in pieces: JSON with sorted keys and paths (manual, "Manifests"). @throws RangeError for an invalid time */
export function* formatManifest(manifest: Manifest): Generator<string, void> {
  const { restoredAtMs, isThorough, missing = [], ...always } = manifest;
  const written = {
    ...always,
    format: FORMAT,
    ...(restoredAtMs === null ? {} : { restoredAtMs }),
    ...(isThorough === false ? { isThorough } : {}),
    ...(missing.length === 0 ? {} : { missing }),
    files: [],
  };
  const whole = JSON.stringify(toDisk(written), null, 1);
  // No text within JSON contains a line break.
  const bracket = whole.indexOf('\n "files": []') + '\n "files": ['.length;
  const files = manifest.files.toSorted((a, b) => byCodeUnits(a.path, b.path));
  yield whole.slice(0, bracket);
  for (let index = 0; index < files.length; index += SLICE_FILES) {
    const slice = JSON.stringify({ files: toDisk(files.slice(index, index + SLICE_FILES)) }, null, 1);
    const sliceText = slice.slice(BEFORE_FILES.length, -AFTER_FILES.length);
    yield index === 0 ? sliceText : `,${sliceText}`;
  }
  yield `${files.length === 0 ? '' : '\n '}${whole.slice(bracket)}\n`;
}

const BEFORE_FILES = '{\n "files": [';
const AFTER_FILES = '\n ]\n}';

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
  const { head, files, hasOtherFile } = parts;
  if (head.data === undefined) return notThere(placeOnDisk(head.error.issues[0]?.path ?? []));
  if (hasOtherFile) return notThere(`files.${files.length}`);
  const { format: _, ...facts } = head.data;
  const skippedFault = facts.skipped.find(({ path }) => nameFault(path) !== null);
  const fault =
    treeFault(files.map(({ path }) => path)) ??
    (skippedFault && { path: skippedFault.path, fault: nameFault(skippedFault.path) ?? '' });
  if (fault !== undefined) return refused(`its file ${JSON.stringify(fault.path)} ${fault.fault}`);
  const comparedAtMs = facts.comparedAtMs ?? facts.verifiedAtMs;
  return { manifest: { ...facts, comparedAtMs, files }, problem: null };
}

function placeOnDisk(path: readonly PropertyKey[]): string {
  const nameOf = (key: PropertyKey) => FIELDS.find(([, memory]) => memory === key)?.[0] ?? String(key);
  return path.map(nameOf).join('.');
}

/** The facts, and the files up to the first entry that describes no file; null if the text is not JSON, or not in the layout that `parse` expects. */
function partsOf(json: Buffer, parse: (json: Buffer, key: string) => SlicedJson) {
  const files: ManifestFile[] = [];
  let hasOtherFile = false;
  try {
    const { object, elements } = parse(json, 'files');
    for (const element of elements) {
      const { data } = fileSchema.safeParse(fromDisk(element));
      if (data === undefined) hasOtherFile = true;
      else if (!hasOtherFile) files.push(data);
    }
    return { head: manifestSchema.safeParse(fromDisk(object)), files, hasOtherFile };
  } catch {
    return null;
  }
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
