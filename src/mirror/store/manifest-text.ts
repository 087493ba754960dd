import { nameFault, treeFault } from '../../lib/paths/file-name.ts';
import { parseSliced, parseWhole, type SlicedJson } from '../../lib/text/sliced-json.ts';
import {
  byCodeUnits,
  fileSchema,
  FORMAT,
  type Manifest,
  type ManifestFile,
  manifestSchema,
  type ManifestWorkbook,
} from './manifest.ts';

function instantText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** All fields, sorted by name on disk: the name there, and the name in memory. */
const FIELDS: readonly (readonly [disk: string, memory: string])[] = [
  ['action', 'action'],
  ['approval', 'approval'],
  ['archive_size', 'archiveBytes'],
  ['at', 'approvedAtMs'],
  ['author', 'author'],
  ['borrowed', 'borrowed'],
  ['branch', 'branch'],
  ['by', 'approvedBy'],
  ['by_word', 'isByWord'],
  ['compared_at', 'comparedAtMs'],
  ['crc32', 'crc32'],
  ['created_at', 'createdAt'],
  ['etag', 'etag'],
  ['files', 'files'],
  ['fingerprint', 'fingerprint'],
  ['format', 'format'],
  ['full_name', 'fullName'],
  ['id', 'id'],
  ['message', 'message'],
  ['missing', 'missing'],
  ['mode', 'mode'],
  ['mtime', 'mtimeMs'],
  ['name', 'name'],
  ['parent', 'parentId'],
  ['path', 'path'],
  ['published_at', 'publishedAtMs'],
  ['reason', 'reason'],
  ['repository', 'repository'],
  ['restored_at', 'restoredAtMs'],
  ['settled', 'settled'],
  ['sha256', 'sha256'],
  ['size', 'sizeBytes'],
  ['skipped', 'skipped'],
  ['thorough', 'isThorough'],
  ['url', 'url'],
  ['verified_at', 'verifiedAtMs'],
  ['version', 'versionId'],
  ['workbook', 'workbook'],
];

/** An object with the names on disk, sorted, so that the same inventory always gives the same text. */
function toDisk(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toDisk);
  if (typeof value !== 'object' || value === null) return value;
  const onDisk: Record<string, unknown> = {};
  for (const [disk, memory] of FIELDS) {
    const field: unknown = Reflect.get(value, memory);
    if (field === undefined) continue;
    const isTime = typeof field === 'number' && memory.endsWith('AtMs');
    onDisk[disk] = isTime ? instantText(field) : toDisk(field);
  }
  return onDisk;
}

/** As {@link toDisk} for a file: there are many, and the table takes twice as long. */
function fileToDisk({ crc32, mode, mtimeMs, path, sha256, sizeBytes: size, workbook }: ManifestFile) {
  return {
    crc32: crc32?.toString(16).padStart(8, '0'),
    mode: mode.toString(8).padStart(4, '0'),
    mtime: instantText(mtimeMs),
    path,
    sha256,
    size,
    workbook: workbook && versionToDisk(workbook),
  };
}

function versionToDisk({
  versionId: version,
  createdAt: created_at,
  parentId: parent,
  ...same
}: ManifestWorkbook) {
  const { action, author, id, message } = same;
  return { action, author, created_at, id, message, parent, version };
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
    const slice = JSON.stringify({ files: files.slice(index, index + SLICE_FILES).map(fileToDisk) }, null, 1);
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
