import { randomUUID } from 'node:crypto';
import type { Stats } from 'node:fs';
import { chmod, chown, mkdir, rename, rm, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { makeFolders, removeEmptyFolders } from '../../lib/disk/durable.ts';
import { linkNow, statsNow } from '../../lib/disk/read.ts';
import { isMissing, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import { type DirectoryLayout, treePath } from './layout.ts';

/** The entry at the place where readers look for a target's tree. */
export interface TreePlace {
  /**
   * `folder`: the tree itself; `link`: a link as {@link linkText} makes it, to an existing tree; `dangling`: such a link to a missing
   * tree; `other`: a file, or a link to anything else.
   */
  readonly kind: 'gone' | 'folder' | 'link' | 'dangling' | 'other';
  /** The tree that such a link names; null for none. */
  readonly name: string | null;
  /** The folder that holds the files of the target, even if it does not exist. Absolute. */
  readonly tree: string;
}

/** A random UUID. */
const TREE_NAME = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text may name a linked tree. */
export function isTreeName(text: string): boolean {
  return TREE_NAME.test(text);
}

/** The place of a linked tree, below the directory; in one of 256 folders, as there may be very many. */
export function placeBelowRoot(name: string): string {
  return `trees/${name.slice(0, 2)}/${name}`;
}

/** The folder of a linked tree. */
export function linkedTree({ root }: Pick<DirectoryLayout, 'root'>, name: string): string {
  return join(root, placeBelowRoot(name));
}

/** The text of the link at a target's place: relative, so that it holds wherever the directory is mounted or restored. */
export function linkText(path: string, name: string): string {
  return `${'../'.repeat(path.split('/').length)}${placeBelowRoot(name)}`;
}

/**
 * Finds what is at the place of a target's tree. Follows only the program's own links.
 * @throws system errors except those for a missing entry
 */
export function treeAt(layout: DirectoryLayout, path: string): TreePlace {
  const tree = treePath(layout, path);
  const stats = statsNow(tree);
  if (stats === null) return { kind: 'gone', name: null, tree };
  if (stats.isDirectory()) return { kind: 'folder', name: null, tree };
  const text = linkNow(tree) ?? '';
  const name = basename(text);
  if (!isTreeName(name) || text !== linkText(path, name)) return { kind: 'other', name: null, tree };
  if (isLinkedTreeThere(layout, name)) return { kind: 'link', name, tree: linkedTree(layout, name) };
  return { kind: 'dangling', name, tree: join(layout.trees, 'gone') };
}

/**
 * Makes a function that tells whether a folder around the place of a target's tree is a link: then the tree behind it is not the published
 * one, whatever it holds. Looks at each folder once.
 */
export function linkFinder({ mirror }: Pick<DirectoryLayout, 'mirror'>): (path: string) => boolean {
  const known = new Map<string, boolean>();
  const isLinked = (folder: string): boolean => {
    if (folder === '.') return false;
    const found =
      known.get(folder) ??
      (isLinked(dirname(folder)) || statsNow(join(mirror, folder))?.isSymbolicLink() === true);
    known.set(folder, found);
    return found;
  };
  return (path) => isLinked(dirname(path));
}

/** Whether a target's files are at its place. */
export function isTreeAt({ kind }: TreePlace): boolean {
  return kind !== 'gone' && kind !== 'dangling';
}

/** Whether a linked tree exists, and can be reached through no other link. @throws as {@link treeAt} */
function isLinkedTreeThere(layout: DirectoryLayout, name: string): boolean {
  const tree = linkedTree(layout, name);
  return [layout.trees, dirname(tree), tree].every((folder) => statsNow(folder)?.isDirectory() === true);
}

/** The folder that holds the files of a target, even if it does not exist. @throws as {@link treeAt} */
export function publishedTree(layout: DirectoryLayout, path: string): string {
  return treeAt(layout, path).tree;
}

/**
 * Refuses to work through symbolic links: someone put them there, and they may lead out of the directory.
 * @param paths folders below the directory; their parents are checked, too
 * @param target may itself be a link of the program, which is replaced and not followed
 * @throws MirrorError `disk.changed`
 */
export async function refuseLinks(
  layout: DirectoryLayout,
  paths: readonly string[],
  target: string | null = null,
): Promise<void> {
  const folders = new Set<string>();
  for (const path of paths) {
    for (let folder = path; folder !== '.' && !folders.has(folder); folder = dirname(folder))
      folders.add(folder);
  }
  for (const folder of folders) {
    // Synchronous: awaiting a thread costs many times what the call itself does, and this runs often.
    if (statsNow(join(layout.root, folder))?.isSymbolicLink() !== true) continue;
    if (target !== null && folder === `mirror/${target}` && treeAt(layout, target).name !== null) continue;
    throw new MirrorError('disk.changed', `${folder} is a symbolic link, where a folder belongs.`, {
      hint: 'Remove the link: the mirror is made of real folders, and nothing is written through links.',
    });
  }
}

/**
 * Removes an unlinked tree, if it exists.
 * @throws MirrorError `disk.changed` if it can only be reached through a link, and system errors
 */
export async function removeTree(layout: DirectoryLayout, name: string): Promise<void> {
  await refuseLinks(layout, [dirname(placeBelowRoot(name))]);
  await rm(linkedTree(layout, name), { recursive: true, force: true });
}

/**
 * Restarts the age of a tree, if it exists. The age shows how long the tree must have been unlinked, so this comes before
 * each change of its link.
 * @param nowMs milliseconds since the epoch
 * @throws system errors
 */
export async function restartAge(layout: DirectoryLayout, name: string, nowMs: number): Promise<void> {
  if (!isLinkedTreeThere(layout, name)) return;
  try {
    await unlessMissing(utimes(linkedTree(layout, name), nowMs / 1000, nowMs / 1000));
  } catch (error) {
    // Only its owner may set a time (utimensat(2)): a tree that another user restored keeps its time.
    if (systemCode(error) !== 'EPERM') throw error;
  }
}

/** How often to try to rename into a folder that other instances make, and remove while it is empty. */
const RENAME_TRIES = 10;

/** Renames a file even if someone put a folder in its place; the folder goes to the stage. */
export async function takePlace(from: string, to: string, stage: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    await makeFolders(dirname(to));
    try {
      return await rename(from, to);
    } catch (error) {
      if (tries === RENAME_TRIES) throw error;
      if (systemCode(error) === 'EISDIR') await rename(to, join(stage, `obstacle-${randomUUID()}`));
      else if (!isMissing(error)) throw error;
    }
  }
}

/** Removes empty folders upwards from one: those within a tree, but not the tree, or those around trees and manifests. */
export function removeLeftFolders(
  { root }: DirectoryLayout,
  targets: readonly string[],
  folder: string,
): void {
  const [top = ''] = folder.split('/', 1);
  if (top !== 'mirror' && top !== 'manifests') return;
  const trees = targets.map((target) => `mirror/${target}`);
  const around = trees.find((tree) => folder === tree || folder.startsWith(`${tree}/`)) ?? top;
  removeEmptyFolders(join(root, folder), join(root, around));
}

/** The part of a folder's permissions that new entries in it inherit (acl(5), inode(7)). */
interface Inheritance {
  /** The group of new entries, if the folder has the set-group-ID bit; null for the group of the process. */
  readonly gid: number | null;
  /** Its default ACL; null for none: then the umask counts. */
  readonly acl: Buffer | null;
}

const NOTHING: Inheritance = { gid: null, acl: null };

type AclCalls = Pick<NativeCalls, 'acl' | 'setAcl'>;

const SET_GROUP_ID = 0o2000;

/**
 * Makes a folder in the staging area that has, and hands on, what an entry at its final place inherits: from the folder that it
 * replaces, if that hands anything on, or else from the nearest existing folder around the place.
 * @param replaced may be missing
 */
export async function makeFolderFor(
  native: AclCalls,
  folder: string,
  place: string,
  replaced: string | null = null,
): Promise<void> {
  let around = dirname(place);
  while (around !== dirname(around) && factsOf(around) === null) around = dirname(around);
  const own = replaced === null ? NOTHING : inheritanceOf(native, replaced);
  const wanted = isDeepStrictEqual(own, NOTHING) ? inheritanceOf(native, around) : own;
  await mkdir(folder);
  if (isDeepStrictEqual(wanted, inheritanceOf(native, folder))) return;
  if (await isGiven(folder, wanted.gid ?? process.getegid?.() ?? -1)) return give(native, folder, wanted);
  await rm(folder, { recursive: true });
  return makeInPlace(around, folder);
}

async function give(native: AclCalls, folder: string, { gid, acl }: Inheritance): Promise<void> {
  // A folder is made with a mode of 0777, which takes nothing from a default ACL.
  native.setAcl(folder, 'access', acl);
  native.setAcl(folder, 'default', acl);
  const permissions = acl === null ? 0o777 & ~process.umask() : (factsOf(folder)?.mode ?? 0) & 0o777;
  // Last: the calls before may take the bit away.
  await chmod(folder, permissions | (gid === null ? 0 : SET_GROUP_ID));
}

function inheritanceOf(native: AclCalls, folder: string): Inheritance {
  const found = factsOf(folder);
  if (found === null) return NOTHING;
  return { gid: (found.mode & SET_GROUP_ID) === 0 ? null : found.gid, acl: native.acl(folder, 'default') };
}

/** The facts of a folder; null if it is missing. */
function factsOf(path: string): Stats | null {
  const found = statsNow(path);
  return found?.isDirectory() === true ? found : null;
}

/** Gives a folder to a group, which only its members may do. @returns whether that was allowed */
async function isGiven(folder: string, gid: number): Promise<boolean> {
  try {
    await chown(folder, -1, gid);
    return true;
  } catch (error) {
    if (systemCode(error) === 'EPERM') return false;
    throw error;
  }
}

/** Always the same, so that the next run takes one that a crash left. No branch has this path: two digits would follow `%`. */
const NEW = '.workbook-mirror%new';

/**
 * Makes a folder where it gets the group of the folder around it (the system gives it to non-members, too), and moves
 * it away. Other processes may do so at the same time.
 */
async function makeInPlace(around: string, folder: string): Promise<void> {
  const made = join(around, NEW);
  for (;;) {
    try {
      await mkdir(made).catch((error: unknown) => {
        if (systemCode(error) !== 'EEXIST') throw error;
      });
      return await rename(made, folder);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
