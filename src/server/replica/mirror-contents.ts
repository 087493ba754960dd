import { createHash } from 'node:crypto';
import { basename } from 'node:path';

import { isWorkbookName } from '../../lib/api/media-types.ts';
import type { Manifest, ManifestFile } from '../../mirror/store/manifest.ts';
import type { Bytes, Content } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { MirrorPort } from './manifests.ts';
import type { Proofs } from './proofs.ts';
import { type OpenTree, openTree, TreeChangedError } from './tree.ts';
import { withheld } from './scans.ts';
import { zipOf, type ZipSource } from './zip.ts';

/** A file or folder of a published tree. */
export type Place =
  | { readonly kind: 'file'; readonly file: ManifestFile }
  /** `prefix` is what the paths of the files begin with, and their names in an archive do not. */
  | { readonly kind: 'folder'; readonly prefix: string; readonly files: readonly ManifestFile[] };

/**
 * Finds a path in a manifest; folders are what the paths of files begin with. An archive of a folder has names from there, as that of
 * the embedded service has.
 * @param path without a slash at either end; empty for everything
 */
export function findPlace(files: readonly ManifestFile[], path: string): Place | null {
  if (path === '') return { kind: 'folder', prefix: '', files };
  const file = files.find((each) => each.path === path);
  if (file !== undefined) return { kind: 'file', file };
  const prefix = `${path}/`;
  const below = files.filter((each) => each.path.startsWith(prefix));
  return below.length === 0 ? null : { kind: 'folder', prefix, files: below };
}

/** Changes with whatever changes the bytes that an archive has for the same files: this program's way, and the compressor. */
const ARCHIVE_WAY = `1 zlib ${process.versions.zlib}`;

/** The entity tag of what stands at a path: the same bytes have it, and no others (RFC 9110, section 8.8.3). */
export function tagOf(place: Place): string {
  if (place.kind === 'file') return `"${place.file.sha256}"`;
  const hash = createHash('sha256').update(ARCHIVE_WAY);
  for (const { path, sha256, mode, mtimeMs } of place.files) {
    hash.update(`\n${JSON.stringify([path.slice(place.prefix.length), sha256, mode, mtimeMs])}`);
  }
  return `"${hash.digest('hex')}"`;
}

/** The files that are to be right before anything of a place is given. */
export function filesOf(place: Place): readonly ManifestFile[] {
  return place.kind === 'file' ? [place.file] : place.files;
}

export interface PlaceContext {
  readonly port: Pick<MirrorPort, 'directory' | 'wayToTree'>;
  /** The target's path below `mirror/`. */
  readonly target: string;
  readonly proofs: Proofs;
  /** Which tree was found to be what the manifest says. */
  readonly identity: string;
  readonly verifiedAtMs: Manifest['verifiedAtMs'];
  /** Receives the reason why an answer could not be completed. */
  readonly onBroken: (error: TreeChangedError) => void;
}

/** The content of a place in a tree that was checked. */
export function contentOf(context: PlaceContext, place: Place): Content {
  const { verifiedAtMs } = context;
  const etag = tagOf(place);
  if (place.kind === 'file') {
    const { file } = place;
    return {
      kind: 'file',
      etag,
      sizeBytes: file.sizeBytes,
      verifiedAtMs,
      open: (signal, range) => fromTree(context, place, signal, (tree) => tree.read(file, signal, range)),
    };
  }
  return {
    kind: 'archive',
    etag,
    verifiedAtMs,
    open: (signal) => fromTree(context, place, signal, (tree) => zipOf(sourcesOf(tree, place, signal))),
  };
}

function* sourcesOf(
  tree: OpenTree,
  { files, prefix }: Extract<Place, { kind: 'folder' }>,
  signal: AbortSignal,
): Generator<ZipSource> {
  for (const file of files) {
    const { path, mode, mtimeMs, sizeBytes } = file;
    yield {
      name: path.slice(prefix.length),
      mode,
      mtimeMs,
      sizeBytes,
      isCompressed: isWorkbookName(basename(path)),
      readWhole: () => {
        signal.throwIfAborted();
        return tree.readWhole(file);
      },
      read: () => tree.read(file, signal),
    };
  }
}

/**
 * Gives the bytes read from the tree of a target. A tree that has replaced the checked one is checked, too.
 * @throws RequestError 503 for a tree that differs from its manifest; an answer that has begun is cut by it
 */
async function* fromTree(
  { port, target, proofs, identity, onBroken }: PlaceContext,
  place: Place,
  signal: AbortSignal,
  give: (tree: OpenTree) => Bytes,
): Bytes {
  const tree = await openTree(port, target, proofs);
  if (tree === null) throw withheld('the contents are not there at the moment');
  try {
    if (tree.identity !== identity) await tree.check(filesOf(place), signal);
    yield* give(tree);
  } catch (error) {
    if (!(error instanceof TreeChangedError)) throw error;
    onBroken(error);
    throw withheld('the contents changed while they were read');
  } finally {
    await tree.close();
  }
}

/** @throws RequestError 404 */
export function pathNotFound(path: string): never {
  throw new RequestError(404, 'path_not_found', `there is no folder or file ${path} on this branch`);
}
