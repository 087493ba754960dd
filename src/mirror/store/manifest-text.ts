import { nameFault, treeFault } from '../../lib/paths/file-name.ts';
import { byCodeUnits, FORMAT, type Manifest, type ManifestFile, manifestSchema } from './manifest.ts';

/** A time as it is on disk. @param timeMs milliseconds since the epoch @throws RangeError for an invalid time */
function instant(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

// On disk all fields are sorted, so that the same manifest always gives the same text. JSON leaves undefined fields out.

function fileOnDisk({ crc32, mode, mtimeMs, path, sha256, sizeBytes, workbook }: ManifestFile): unknown {
  return {
    crc32: crc32?.toString(16).padStart(8, '0'),
    mode: mode.toString(8).padStart(4, '0'),
    mtime: instant(mtimeMs),
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

/** All but the files, whose place is empty. */
function factsOnDisk({ approval, repository, ...facts }: Manifest): unknown {
  const { restoredAtMs, missing = [] } = facts;
  return {
    approval: approval && {
      at: instant(approval.approvedAtMs),
      by: approval.approvedBy,
      by_word: approval.isByWord,
    },
    archive_size: facts.archiveBytes,
    borrowed: facts.borrowed,
    branch: facts.branch,
    compared_at: instant(facts.comparedAtMs),
    etag: facts.etag,
    files: [],
    fingerprint: facts.fingerprint,
    format: FORMAT,
    missing: missing.length === 0 ? undefined : missing,
    published_at: instant(facts.publishedAtMs),
    repository: {
      created_at: repository.createdAt,
      full_name: repository.fullName,
      id: repository.id,
      name: repository.name,
      url: repository.url,
    },
    restored_at: restoredAtMs === null ? undefined : instant(restoredAtMs),
    settled: facts.settled,
    skipped: facts.skipped.map(({ path, reason }) => ({ path, reason })),
    thorough: facts.isThorough === false ? false : undefined,
    verified_at: instant(facts.verifiedAtMs),
  };
}

/** How many files become text at a time: the text of a great tree is longer than the data that it is made from. */
const SLICE_FILES = 1000;

/** The manifest as it is written, in pieces: JSON with sorted keys and paths (manual, "Manifests"). @throws RangeError for an invalid time */
export function* formatManifest(manifest: Manifest): Generator<string, void> {
  const [before = '', after = ''] = textOf(factsOnDisk(manifest)).split(EMPTY);
  const files = manifest.files.toSorted((a, b) => byCodeUnits(a.path, b.path));
  yield `${before}${OPENING}`;
  for (let index = 0; index < files.length; index += SLICE_FILES) {
    const slice = textOf({ files: files.slice(index, index + SLICE_FILES).map(fileOnDisk) });
    yield (index === 0 ? '' : ',') + slice.slice(1 + OPENING.length, -CLOSING.length);
  }
  yield `${files.length === 0 ? '' : '\n '}]${after}\n`;
}

/** No text within JSON contains a line break. */
const OPENING = '\n "files": [';
const EMPTY = `${OPENING}]`;
const CLOSING = '\n ]\n}';

function textOf(value: unknown): string {
  return JSON.stringify(value, null, 1);
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
  let parsed: unknown;
  try {
    parsed = JSON.parse(json.toString('utf8'));
  } catch {
    return refused('it is not JSON');
  }
  const { data: manifest, error } = manifestSchema.safeParse(parsed);
  if (manifest === undefined) {
    const field = error.issues[0]?.path.join('.') ?? '';
    if (field === '') return refused('it is not a JSON object');
    return refused(`its field ${JSON.stringify(field)} is not what a manifest has there`);
  }
  const { files, skipped } = manifest;
  const skippedFault = skipped.find(({ path }) => nameFault(path) !== null);
  const fault =
    treeFault(files.map(({ path }) => path)) ??
    (skippedFault && { path: skippedFault.path, fault: nameFault(skippedFault.path) ?? '' });
  if (fault !== undefined) return refused(`its file ${JSON.stringify(fault.path)} ${fault.fault}`);
  return { manifest, problem: null };
}
