import { readFile } from 'node:fs/promises';

import { z } from 'zod';

import { MANIFEST_FORMAT, type Manifest, type ManifestFile } from '../model/manifest.ts';
import { unlessMissing } from '../model/disk-errors.ts';

const instant = z.iso.datetime({ offset: true });

const fileSchema = z.object({
  path: z.string().min(1),
  size: z.number().int().nonnegative(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  mode: z.string().regex(/^[0-7]{4}$/),
  mtime: instant,
  crc32: z
    .string()
    .regex(/^[0-9a-f]{8}$/)
    .optional(),
  workbook: z
    .object({
      id: z.string(),
      version: z.string(),
      author: z.string().nullable(),
      message: z.string().nullable(),
      created_at: z.string().nullable(),
      action: z.string().nullable().optional(),
      parent: z.string().nullable().optional(),
    })
    .optional(),
});

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
  archive_size: z.number().int().nonnegative(),
  skipped: z.array(z.object({ path: z.string(), reason: z.enum(['symbolic-link', 'special-file']) })),
  files: z.array(fileSchema),
});

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

function fileToDisk(file: ManifestFile): z.input<typeof fileSchema> {
  const { workbook } = file;
  return {
    path: file.path,
    size: file.sizeBytes,
    sha256: file.sha256,
    mode: file.mode.toString(8).padStart(4, '0'),
    mtime: iso(file.mtimeMs),
    ...(file.crc32 === undefined ? {} : { crc32: file.crc32.toString(16).padStart(8, '0') }),
    ...(workbook === undefined
      ? {}
      : {
          workbook: {
            id: workbook.id,
            version: workbook.versionId,
            author: workbook.author,
            message: workbook.message,
            created_at: workbook.createdAt,
            ...(workbook.action === undefined ? {} : { action: workbook.action }),
            ...(workbook.parentId === undefined ? {} : { parent: workbook.parentId }),
          },
        }),
  };
}

function fileFromDisk(file: z.output<typeof fileSchema>): ManifestFile {
  const { workbook } = file;
  return {
    path: file.path,
    sizeBytes: file.size,
    sha256: file.sha256,
    mode: Number.parseInt(file.mode, 8),
    mtimeMs: Date.parse(file.mtime),
    ...(file.crc32 === undefined ? {} : { crc32: Number.parseInt(file.crc32, 16) }),
    ...(workbook === undefined
      ? {}
      : {
          workbook: {
            id: workbook.id,
            versionId: workbook.version,
            author: workbook.author,
            message: workbook.message,
            createdAt: workbook.created_at,
            ...(workbook.action === undefined ? {} : { action: workbook.action }),
            ...(workbook.parent === undefined ? {} : { parentId: workbook.parent }),
          },
        }),
  };
}

/** Sorts the keys of every object, so that the same inventory is always the same text. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The manifest as it is written: JSON with sorted keys and paths (README, "Manifests"). */
export function formatManifest(manifest: Manifest): string {
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
    verified_at: iso(manifest.verifiedAtMs),
    ...(manifest.comparedAtMs === null ? {} : { compared_at: iso(manifest.comparedAtMs) }),
    published_at: iso(manifest.publishedAtMs),
    ...(manifest.restoredAtMs === null ? {} : { restored_at: iso(manifest.restoredAtMs) }),
    fingerprint: manifest.fingerprint,
    borrowed: [...manifest.borrowed],
    settled: manifest.settled,
    etag: manifest.etag,
    archive_size: manifest.archiveBytes,
    skipped: manifest.skipped.map((entry) => ({ ...entry })),
    files: [...manifest.files].sort((a, b) => (a.path < b.path ? -1 : 1)).map(fileToDisk),
  };
  return `${JSON.stringify(onDisk, sortKeys, 1)}\n`;
}

/** Reads a manifest's text; null where it is not a manifest of this format, and so proves nothing. */
export function parseManifest(text: string): Manifest | null {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = manifestSchema.safeParse(json);
  if (!parsed.success) return null;
  const { data } = parsed;
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
    archiveBytes: data.archive_size,
    skipped: data.skipped,
    files: data.files.map(fileFromDisk),
  };
}

/** Reads a manifest from disk; null where there is none, or none that can be understood. */
export async function readManifest(path: string): Promise<Manifest | null> {
  const text = await unlessMissing(readFile(path, 'utf8'));
  return text === null ? null : parseManifest(text);
}
