import { z } from 'zod';
import { nameFault, treeFault } from '../../lib/paths/file-name.ts';
import {
  byCodeUnits,
  fileSchema,
  FORMAT,
  type Manifest,
  type ManifestFile,
  manifestSchema,
} from './manifest.ts';

/** The fields with another name in memory: the name on disk, and the name in memory. */
const RENAMED: readonly (readonly [disk: string, memory: string])[] = [
  ['archive_size', 'archiveBytes'],
  ['at', 'approvedAtMs'],
  ['by', 'approvedBy'],
  ['by_word', 'isByWord'],
  ['compared_at', 'comparedAtMs'],
  ['created_at', 'createdAt'],
  ['full_name', 'fullName'],
  ['mtime', 'mtimeMs'],
  ['parent', 'parentId'],
  ['published_at', 'publishedAtMs'],
  ['restored_at', 'restoredAtMs'],
  ['size', 'sizeBytes'],
  ['thorough', 'isThorough'],
  ['verified_at', 'verifiedAtMs'],
  ['version', 'versionId'],
];
const MEMORY_NAMES = new Map(RENAMED);
const DISK_NAMES = new Map(RENAMED.map(([disk, memory]) => [memory, disk]));

/** A value with the names and formats on disk, its fields sorted, so that the same inventory always gives the same text. */
function toDisk(value: unknown, name = ''): unknown {
  if (typeof value === 'number') {
    if (/(?:At|mtime)Ms$/.test(name)) return new Date(value).toISOString();
    if (name === 'mode') return value.toString(8).padStart(4, '0');
    return name === 'crc32' ? value.toString(16).padStart(8, '0') : value;
  }
  if (Array.isArray(value)) return value.map((each) => toDisk(each));
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([each, field]): [string, unknown] => [
    DISK_NAMES.get(each) ?? each,
    toDisk(field, each),
  ]);
  return Object.fromEntries(fields.sort(([a], [b]) => byCodeUnits(a, b)));
}

/** The schema has nothing that is nested more deeply. */
const DEEPEST = 8;

/** A value with the names in memory. */
function fromDisk(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null || depth > DEEPEST) return value;
  if (Array.isArray(value)) return value.map((each) => fromDisk(each, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      MEMORY_NAMES.get(name) ?? name,
      fromDisk(field, depth + 1),
    ]),
  );
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
  const [before = '', after = ''] = textOf(written).split(EMPTY);
  const files = manifest.files.toSorted((a, b) => byCodeUnits(a.path, b.path));
  yield `${before}${OPENING}`;
  for (let index = 0; index < files.length; index += SLICE_FILES) {
    const slice = textOf({ files: files.slice(index, index + SLICE_FILES) });
    yield (index === 0 ? '' : ',') + slice.slice(1 + OPENING.length, -CLOSING.length);
  }
  yield `${files.length === 0 ? '' : '\n '}]${after}\n`;
}

/** No text within JSON contains a line break. */
const OPENING = '\n "files": [';
const EMPTY = `${OPENING}]`;
const CLOSING = '\n ]\n}';

function textOf(value: unknown): string {
  return JSON.stringify(toDisk(value), null, 1);
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
  const notThere = (path: readonly PropertyKey[] = []): ManifestReading => {
    const names = path.map((name) => DISK_NAMES.get(String(name)) ?? String(name));
    return refused(`its field ${JSON.stringify(names.join('.'))} is not what a manifest has there`);
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(json.toString('utf8'));
  } catch {
    return refused('it is not JSON');
  }
  const written = writtenSchema.safeParse(parsed);
  const elements = written.data?.files;
  const head = manifestSchema.safeParse(fromDisk({ ...written.data, files: elements && [] }));
  if (head.data === undefined) return notThere(head.error.issues[0]?.path);
  const files: ManifestFile[] = [];
  for (const [index, each] of (elements ?? []).entries()) {
    const file = fileSchema.safeParse(fromDisk(each));
    if (file.data === undefined) return notThere(['files', index]);
    files.push(file.data);
  }
  const { format: _, ...facts } = head.data;
  const skippedFault = facts.skipped.find(({ path }) => nameFault(path) !== null);
  const fault =
    treeFault(files.map(({ path }) => path)) ??
    (skippedFault && { path: skippedFault.path, fault: nameFault(skippedFault.path) ?? '' });
  if (fault !== undefined) return refused(`its file ${JSON.stringify(fault.path)} ${fault.fault}`);
  const comparedAtMs = facts.comparedAtMs ?? facts.verifiedAtMs;
  return { manifest: { ...facts, comparedAtMs, files }, problem: null };
}

/** There may be very many files: each is converted and checked separately. */
const writtenSchema = z.looseObject({ files: z.array(z.unknown()).optional().catch(undefined) });
