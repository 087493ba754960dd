import { z } from 'zod';

import { byCodeUnits, MANIFEST_FORMAT, type Manifest, type ManifestFile } from './manifest.ts';
import { nameFault, type TreeFault, treeFault } from '../../lib/paths/file-name.ts';
import { parseSliced } from '../../lib/text/sliced-json.ts';
import { fileFromDisk, fileToText, type FormatInstant, instantFormatter } from './manifest-entry.ts';

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
  const formatInstant = instantFormatter();
  const [start, end] = aroundFiles(manifest, formatInstant);
  let piece = start;
  let separator = '\n';
  for (const file of sortedByPath(manifest.files)) {
    piece += separator + fileToText(file, formatInstant);
    separator = ',\n';
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  yield `${piece}${manifest.files.length === 0 ? '' : '\n '}${end}\n`;
}

/** The text before the files, up to the bracket, and the text after them. */
function aroundFiles(manifest: Manifest, formatInstant: FormatInstant): readonly [string, string] {
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
    verified_at: formatInstant(manifest.verifiedAtMs),
    ...(manifest.comparedAtMs === null ? {} : { compared_at: formatInstant(manifest.comparedAtMs) }),
    published_at: formatInstant(manifest.publishedAtMs),
    ...(manifest.restoredAtMs === null ? {} : { restored_at: formatInstant(manifest.restoredAtMs) }),
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
