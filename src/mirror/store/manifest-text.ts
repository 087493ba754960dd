import { z } from 'zod';

import { nameFault, type TreeFault, treeFault } from '../../lib/paths/file-name.ts';
import { parseSliced } from '../../lib/text/sliced-json.ts';
import { storableTimeMs } from '../../lib/time/file-time.ts';
import {
  byCodeUnits,
  type Manifest,
  MANIFEST_FORMAT,
  type ManifestFile,
  type ManifestWorkbook,
} from './manifest.ts';

const instant = z.iso.datetime({ offset: true });

const manifestSchema = z.object({
  format: z.literal(MANIFEST_FORMAT),
  repository: z.object({
    id: z.string().min(1),
    name: z.string(),
    full_name: z.string().min(1),
    url: z.string().nullable(),
    created_at: z.string().nullable().optional(),
  }),
  branch: z.string().min(1),
  verified_at: instant,
  compared_at: instant.nullable().default(null),
  published_at: instant,
  restored_at: instant.nullable().default(null),
  fingerprint: z.string().nullable(),
  borrowed: z.array(z.string()),
  settled: z.boolean(),
  etag: z.string().nullable(),
  thorough: z.boolean().optional(),
  archive_size: z.number().int().nonnegative(),
  skipped: z.array(
    z.object({ path: z.string(), reason: z.enum(['symbolic-link', 'special-file', 'submodule']) }),
  ),
  missing: z.array(z.string()).optional(),
  // There may be very many: each is read and checked by itself, and not as it passes through a schema.
  files: z.custom<readonly unknown[]>(Array.isArray),
});

/** Sorts the keys of every object, so that the same inventory is always the same text. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => byCodeUnits(a, b)));
}

/** Characters of a piece of a manifest's text, more or less. */
const PIECE_LENGTH = 256 * 1024;

/**
 * The manifest as it is written: JSON with sorted keys and paths (manual, "Manifests"). It comes in pieces, as the text of a
 * great tree is longer than all that it is made from.
 */
export function* formatManifest(manifest: Manifest): Generator<string, void> {
  const [start, end] = aroundFiles(manifest);
  let piece = start;
  let separator = '\n';
  for (const file of sortedByPath(manifest.files)) {
    piece += separator + fileToText(file);
    separator = ',\n';
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  yield `${piece}${manifest.files.length === 0 ? '' : '\n '}${end}\n`;
}

/** The text before the files, up to the bracket, and the text after them. */
function aroundFiles(manifest: Manifest): readonly [string, string] {
  const onDisk: z.input<typeof manifestSchema> = {
    format: MANIFEST_FORMAT,
    repository: {
      id: manifest.repository.id,
      name: manifest.repository.name,
      full_name: manifest.repository.fullName,
      url: manifest.repository.url,
      ...(manifest.repository.createdAt === undefined ? {} : { created_at: manifest.repository.createdAt }),
    },
    branch: manifest.branch,
    verified_at: instantText(manifest.verifiedAtMs),
    ...(manifest.comparedAtMs === null ? {} : { compared_at: instantText(manifest.comparedAtMs) }),
    published_at: instantText(manifest.publishedAtMs),
    ...(manifest.restoredAtMs === null ? {} : { restored_at: instantText(manifest.restoredAtMs) }),
    fingerprint: manifest.fingerprint,
    borrowed: [...manifest.borrowed],
    settled: manifest.settled,
    etag: manifest.etag,
    ...(manifest.isThorough === false ? { thorough: false } : {}),
    archive_size: manifest.archiveBytes,
    skipped: manifest.skipped.map((entry) => ({ ...entry })),
    ...((manifest.missing ?? []).length === 0 ? {} : { missing: [...(manifest.missing ?? [])] }),
    files: [],
  };
  const text = JSON.stringify(onDisk, sortKeys, 1);
  // No text within JSON has a line break of its own.
  const bracket = text.indexOf('\n "files": []') + '\n "files": ['.length;
  return [text.slice(0, bracket), text.slice(bracket)];
}

function sortedByPath(files: readonly ManifestFile[]): readonly ManifestFile[] {
  const isSorted = files.every((file, index) => index === 0 || (files[index - 1]?.path ?? '') <= file.path);
  return isSorted ? files : files.toSorted((a, b) => byCodeUnits(a.path, b.path));
}

/** Reads a manifest's text; null where it is not a manifest of this format, and so proves nothing. */
export function parseManifest(text: Buffer): Manifest | null {
  const understood = understandManifest(text);
  return typeof understood === 'string' ? null : understood;
}

/**
 * Reads a manifest's text. Whoever can write the directory, or a backup of it, may have written it: what it says of paths and
 * modes is held to the rules for archives before anything goes by it.
 * @returns what is wrong where it is not a manifest of this format, as a sentence without its end
 */
export function understandManifest(text: Buffer): Manifest | string {
  const read = readJson(text);
  if (read === null) return 'it is not JSON';
  const parsed = manifestSchema.safeParse(read.object);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return `its field ${JSON.stringify(issue?.path.join('.') ?? '')} is not what a manifest has there`;
  }
  const { data } = parsed;
  const { files, isWhole } = read;
  if (!isWhole) return `its field "files.${files.length}" is not what a manifest has there`;
  const fault = treeFault(files.map(({ path }) => path)) ?? firstFault(data.skipped);
  if (fault !== null) return `its file ${JSON.stringify(fault.path)} ${fault.fault}`;
  return {
    repository: {
      id: data.repository.id,
      name: data.repository.name,
      fullName: data.repository.full_name,
      url: data.repository.url,
      ...(data.repository.created_at === undefined ? {} : { createdAt: data.repository.created_at }),
    },
    branch: data.branch,
    verifiedAtMs: Date.parse(data.verified_at),
    comparedAtMs: data.compared_at === null ? null : Date.parse(data.compared_at),
    publishedAtMs: Date.parse(data.published_at),
    restoredAtMs: data.restored_at === null ? null : Date.parse(data.restored_at),
    fingerprint: data.fingerprint,
    borrowed: data.borrowed,
    settled: data.settled,
    etag: data.etag,
    ...(data.thorough === false ? { isThorough: false } : {}),
    archiveBytes: data.archive_size,
    skipped: data.skipped,
    ...(data.missing === undefined ? {} : { missing: data.missing }),
    files,
  };
}

/** A manifest's text, as far as it is understood by itself. */
interface ReadJson {
  /** All of it but its files. */
  readonly object: unknown;
  /** Its files, up to the first that cannot be understood. */
  readonly files: readonly ManifestFile[];
  /** Whether all could. */
  readonly isWhole: boolean;
}

/** Gives null where the text is not JSON. */
function readJson(text: Buffer): ReadJson | null {
  const files: ManifestFile[] = [];
  let isWhole = true;
  try {
    const { object, elements } = parseSliced(text, 'files');
    for (const element of elements) {
      const file = isWhole ? fileFromDisk(element) : null;
      if (file === null) isWhole = false;
      else files.push(file);
    }
    return { object, files, isWhole };
  } catch {
    return null;
  }
}

function firstFault(entries: readonly { readonly path: string }[]): TreeFault | null {
  for (const { path } of entries) {
    const fault = nameFault(path);
    if (fault !== null) return { path, fault };
  }
  return null;
}

/** One file of a manifest as text and back: of these there are very many, so that no schema goes over them. */

const SHA256 = /^[0-9a-f]{64}$/;
/** Of `PERMISSION_BITS` only. */
const MODE = /^0[0-7]{3}$/;
const INSTANT = z.regexes.datetime({ offset: true });
const CRC32 = /^[0-9a-f]{8}$/;

/** Writes a moment, in milliseconds since the epoch. @throws RangeError for what is no moment */
function instantText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** A file as it stands in the text of a manifest: an object of the array `files`, with sorted keys, without a line break. */
function fileToText(file: ManifestFile): string {
  const { crc32, workbook } = file;
  const mode = file.mode.toString(8).padStart(4, '0');
  return (
    '  {\n' +
    (crc32 === undefined ? '' : `   "crc32": "${crc32.toString(16).padStart(8, '0')}",\n`) +
    `   "mode": "${mode}",\n` +
    `   "mtime": "${instantText(file.mtimeMs)}",\n` +
    `   "path": ${JSON.stringify(file.path)},\n` +
    `   "sha256": ${JSON.stringify(file.sha256)},\n` +
    `   "size": ${JSON.stringify(file.sizeBytes)}` +
    (workbook === undefined ? '' : `,\n   "workbook": ${workbookToText(workbook)}`) +
    '\n  }'
  );
}

function workbookToText({
  id,
  versionId,
  author,
  message,
  createdAt,
  action,
  parentId,
}: ManifestWorkbook): string {
  return (
    '{\n' +
    (action === undefined ? '' : `    "action": ${JSON.stringify(action)},\n`) +
    `    "author": ${JSON.stringify(author)},\n` +
    `    "created_at": ${JSON.stringify(createdAt)},\n` +
    `    "id": ${JSON.stringify(id)},\n` +
    `    "message": ${JSON.stringify(message)},\n` +
    (parentId === undefined ? '' : `    "parent": ${JSON.stringify(parentId)},\n`) +
    `    "version": ${JSON.stringify(versionId)}\n` +
    '   }'
  );
}

/**
 * Reads an element of the array `files`; null where it is none that {@link fileToText} writes, further keys left aside. Whether
 * its path fits into a tree with the others is not looked at.
 */
export function fileFromDisk(value: unknown): ManifestFile | null {
  if (!isObject(value)) return null;
  const { path, size, sha256, mode, mtime, crc32 } = value;
  if (typeof path !== 'string' || path === '' || !isSize(size)) return null;
  if (!isText(sha256, SHA256) || !isText(mode, MODE) || !isText(mtime, INSTANT)) return null;
  const file: { -readonly [Key in keyof ManifestFile]: ManifestFile[Key] } = {
    path,
    sizeBytes: size,
    sha256,
    mode: Number.parseInt(mode, 8),
    // An earlier version of this program wrote times that no file system can keep: repair puts them right.
    mtimeMs: storableTimeMs(Date.parse(mtime)),
  };
  if (crc32 !== undefined) {
    if (!isText(crc32, CRC32)) return null;
    file.crc32 = Number.parseInt(crc32, 16);
  }
  if (value['workbook'] === undefined) return file;
  const workbook = workbookFromDisk(value['workbook']);
  if (workbook === null) return null;
  file.workbook = workbook;
  return file;
}

function workbookFromDisk(value: unknown): ManifestWorkbook | null {
  if (!isObject(value)) return null;
  const { id, version, author, message, created_at: createdAt, action, parent } = value;
  if (typeof id !== 'string' || typeof version !== 'string') return null;
  if (!isTextOrNull(author) || !isTextOrNull(message) || !isTextOrNull(createdAt)) return null;
  const workbook: { -readonly [Key in keyof ManifestWorkbook]: ManifestWorkbook[Key] } = {
    id,
    versionId: version,
    author,
    message,
    createdAt,
  };
  if (action !== undefined) {
    if (!isTextOrNull(action)) return null;
    workbook.action = action;
  }
  if (parent !== undefined) {
    if (!isTextOrNull(parent)) return null;
    workbook.parentId = parent;
  }
  return workbook;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value is a count of bytes that a number holds exactly. */
function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isText(value: unknown, form: RegExp): value is string {
  return typeof value === 'string' && form.test(value);
}

function isTextOrNull(value: unknown): value is string | null {
  return typeof value === 'string' || value === null;
}
