import { createHash } from 'node:crypto';

import type { ManifestFile } from '../../mirror/store/manifest.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { Content } from '../http/library.ts';
import { readFile } from './tree.ts';
import { zipBytes, zipOf, type ZipSource } from './zip.ts';

/** A file or folder of a published tree. */
export type Place =
  | { readonly kind: 'file'; readonly file: ManifestFile }
  /** The paths of the files begin with `prefix`, which their names in an archive omit. */
  | { readonly kind: 'archive'; readonly prefix: string; readonly files: readonly ManifestFile[] };

/**
 * Finds a path in a manifest; a folder is a prefix of file paths. Names in the archive of a folder are relative to it, as in the
 * embedded service.
 * @param path without a slash at either end; empty for everything
 * @throws RequestError 404
 */
export function findPlace(files: readonly ManifestFile[], path: string): Place {
  if (path === '') return { kind: 'archive', prefix: '', files };
  const file = files.find((each) => each.path === path);
  if (file !== undefined) return { kind: 'file', file };
  const prefix = `${path}/`;
  const below = files.filter((each) => each.path.startsWith(prefix));
  if (below.length > 0) return { kind: 'archive', prefix, files: below };
  throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
}

/** Must change whenever archives of the same files get other bytes. */
const ARCHIVE_FORM = '2 stored';

/** The entity tag of a place: only the same bytes have it (RFC 9110, section 8.8.3). */
export function tagOf(place: Place): string {
  if (place.kind === 'file') return `"${place.file.sha256}"`;
  const hash = createHash('sha256').update(ARCHIVE_FORM);
  for (const { path, sha256, mode, mtimeMs } of place.files) {
    hash.update(`\n${JSON.stringify([path.slice(place.prefix.length), sha256, mode, mtimeMs])}`);
  }
  return `"${hash.digest('hex')}"`;
}

/** The content of a place. @param tree real path of the folder of the tree */
export function contentOf(tree: string, place: Place): Omit<Content, 'verifiedAtMs'> {
  const { kind } = place;
  const etag = tagOf(place);
  if (kind === 'file') {
    const { file } = place;
    return {
      kind,
      etag,
      sizeBytes: file.sizeBytes,
      open: (signal, range) => readFile(tree, file, signal, range),
    };
  }
  const entries = place.files.map((file) => ({ ...file, name: file.path.slice(place.prefix.length) }));
  const sourcesFor = (signal: AbortSignal): ZipSource[] =>
    entries.map((entry) => ({ ...entry, read: (range) => readFile(tree, entry, signal, range) }));
  const sizeBytes = zipBytes(entries);
  return { kind, etag, sizeBytes, open: (signal, range) => zipOf(sourcesFor(signal), range) };
}
