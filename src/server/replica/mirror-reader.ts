import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { READ_FLAGS } from '../../lib/disk/own-file.ts';
import { withOpen } from '../../lib/disk/read.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { RequestError } from '../../lib/http/request.ts';
import { foldersWith } from '../../lib/paths/file-name.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { type DirectoryLayout, layoutOf, manifestPath } from '../../mirror/store/layout.ts';
import { parseManifest } from '../../mirror/store/manifest-text.ts';
import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { treeAt } from '../../mirror/store/published-tree.ts';
import type { Workbooks } from '../http/library.ts';
import { type MirroredRepository, type MirroredTarget, repositoriesOf, workbooksOf } from './catalogue.ts';
import { TreeChangedError, unlessAbsent } from './contents.ts';

/** The contents of a mirror at a moment. */
export interface Scan {
  readonly targets: readonly MirroredTarget[];
  readonly byId: ReadonlyMap<string, MirroredRepository>;
  /** The same as long as nothing changed. */
  readonly workbooks: () => Workbooks;
  /**
   * Targets, or folders of them, whose manifest cannot be read or understood, or is missing although the tree is there. A list without
   * them would look like deletions.
   */
  readonly unreadable: readonly string[];
}

interface StampedTarget extends MirroredTarget {
  /** Identifies one state of the manifest's file. */
  readonly stamp: string;
}

/** Age up to which a scan counts as recent, in milliseconds. */
const RECENT_MS = 5000;

/** Most attempts to scan a mirror, and the pause between two: a publish or a rename may be half done. */
const MOST_LOOKS = 30;
const PAUSE_MS = 50;

const READS = 16;

/** A file of a tree is at least this deep below `mirror/`: repository, branch, file. Files higher up are not part of a tree. */
const LEAST_FILE_DEPTH = 3;

/**
 * Makes a reader of the manifests of a mirror; it reads one again only if its file has changed.
 * @param directory the setting `directory`; nothing in it is written or locked
 */
export function createMirrorReader(directory: string) {
  const layout = layoutOf(directory);
  let known = new Map<string, StampedTarget>();
  let last: Scan | null = null;

  /**
   * The present state of a target.
   * @throws TreeChangedError if it has no manifest that can be understood, MirrorError `disk.failed`
   */
  async function read(path: string): Promise<StampedTarget> {
    const before = known.get(path);
    const reading = withOpen(manifestPath(layout, path), READ_FLAGS, async (handle) => {
      const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
      const stamp = `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp === before?.stamp) return before;
      // A manifest is replaced, never changed in place: one handle reads one state.
      const { manifest } = parseManifest(await handle.readFile());
      return manifest && { path, stamp, writtenAtMs: Number(mtimeNs) / 1e6, manifest };
    });
    const target = await onDisk('reading a manifest', () => unlessAbsent(reading));
    if (target === null) throw new TreeChangedError('', 'its manifest is missing or cannot be understood');
    known.set(path, target);
    return target;
  }

  /**
   * A manifest that moves while the folders are listed may be seen at neither place, so that its target would look deleted: a scan
   * counts only if the names are the same before and after.
   */
  async function scan(): Promise<Scan> {
    for (let looks = 1; looks <= MOST_LOOKS; looks += 1) {
      const paths = await listManifests(layout);
      const found = new Map<string, StampedTarget>();
      await forEachConcurrently(paths, READS, async (path) => {
        const target = await read(path).catch(() => null);
        if (target !== null) found.set(path, target);
      });
      const unclaimed = await findUnclaimed(layout, paths);
      const isSteady = isDeepStrictEqual(paths, await listManifests(layout));
      if (isSteady && (unclaimed.length === 0 || looks === MOST_LOOKS)) {
        known = found;
        const targets = paths.flatMap((path) => found.get(path) ?? []);
        const unread = paths.filter((path) => !found.has(path));
        return (last = scanOf(targets, [...unread, ...unclaimed], last));
      }
      await sleep(PAUSE_MS);
    }
    throw busy('the mirror changes faster than it can be listed');
  }

  /** The contents now, or later than now. @throws RequestError 503, MirrorError `disk.failed` */
  const fresh = shareWork(scan);
  /** The contents, possibly a moment old. @throws as `fresh` */
  const recent = shareWork(fresh, RECENT_MS);
  return { read, fresh, recent };
}

async function listManifests(layout: DirectoryLayout): Promise<string[]> {
  // This folder vanishes only with the disk, which must not look like an empty mirror.
  await onDisk('listing the manifests', () => access(layout.manifests));
  return manifestPaths(layout);
}

/**
 * Finds folders and links below `mirror/` that look like published trees and have no manifest. Each tree that is published for the
 * first time is briefly one.
 * @param targets paths of the targets that have a manifest, also those whose manifest cannot be read
 * @returns the topmost of them, sorted
 */
function findUnclaimed(layout: DirectoryLayout, targets: readonly string[]): Promise<string[]> {
  return onDisk('listing the mirror', async () => {
    const trees = new Set(targets);
    const leading = foldersWith(targets);
    const unclaimed = new Set<string>();
    /** @param above the topmost folder on the way that leads to no known tree; null while every folder on the way leads to one */
    const walk = async (folder: string, above: string | null): Promise<void> => {
      const listing = readdir(join(layout.mirror, folder), { withFileTypes: true });
      for (const entry of (await unlessAbsent(listing)) ?? []) {
        const path = join(folder, entry.name);
        const top = above ?? path;
        if (trees.has(path)) continue;
        if (entry.isDirectory() && leading.has(path)) await walk(path, null);
        // A folder that cannot be read may hold a tree.
        else if (entry.isDirectory()) await walk(path, top).catch(() => unclaimed.add(top));
        else if (entry.isSymbolicLink() && treeAt(layout, path).name !== null) unclaimed.add(top);
        else if (above !== null && entry.isFile() && path.split('/').length >= LEAST_FILE_DEPTH)
          unclaimed.add(top);
      }
    };
    await walk('', null);
    return [...unclaimed].sort(byCodeUnits);
  });
}

/** @param last the scan before, which is returned again if nothing changed */
function scanOf(targets: readonly MirroredTarget[], unreadable: readonly string[], last: Scan | null): Scan {
  if (last !== null && isDeepStrictEqual([targets, unreadable], [last.targets, last.unreadable])) return last;
  const byId = repositoriesOf(targets);
  let workbooks: Workbooks | null = null;
  return { targets, byId, unreadable, workbooks: () => (workbooks ??= workbooksOf(byId)) };
}

/**
 * The refusal of a request that cannot be answered now. It has no Retry-After: clients would apply it to the whole service (RFC 9110,
 * section 15.6.4), which gives all other contents.
 */
export function busy(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`);
}
