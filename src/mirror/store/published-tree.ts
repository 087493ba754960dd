import { basename, dirname, join } from 'node:path';

import { linkNow, statsNow } from '../../lib/disk/read.ts';
import { type DirectoryLayout, treePath } from './layout.ts';

/** What stands where readers look for a target's tree. */
export type TreePlace =
  | { readonly kind: 'gone' }
  /** The tree itself. */
  | { readonly kind: 'folder' }
  /** A link of the form that {@link linkText} gives, to a tree that is there. */
  | { readonly kind: 'link'; readonly name: string }
  /** Such a link to a tree that is not there. */
  | { readonly kind: 'dangling'; readonly name: string }
  /** A file, or a link that leads anywhere else. */
  | { readonly kind: 'other' };

/** A random UUID. */
const TREE_NAME = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text may name a tree that is linked to. */
export function isTreeName(text: string): boolean {
  return TREE_NAME.test(text);
}

/** The name for the tree of a stage, so that recovery knows it by the stage. */
export function treeNameOf(stage: string): string {
  return basename(stage);
}

/** Where a tree is that is linked to, below the directory; in one of 256 folders, as there may be very many. */
export function placeBelowRoot(name: string): string {
  return `trees/${name.slice(0, 2)}/${name}`;
}

/** The folder of a tree that is linked to. */
export function linkedTree({ root }: Pick<DirectoryLayout, 'root'>, name: string): string {
  return join(root, placeBelowRoot(name));
}

/** The text of the link at a target's place: relative, so that it holds wherever the directory is mounted or restored. */
export function linkText(path: string, name: string): string {
  return `${'../'.repeat(path.split('/').length)}${placeBelowRoot(name)}`;
}

/** The tree that a link at a target's place leads to; null unless it is one of the program's own. */
function treeNameIn(path: string, text: string): string | null {
  const name = text.slice(text.lastIndexOf('/') + 1);
  return isTreeName(name) && text === linkText(path, name) ? name : null;
}

/**
 * Looks at the place of a target's tree. Follows no link but one of the program's own.
 * @throws system errors but those of what is not there
 */
export function treeAt(layout: DirectoryLayout, path: string): TreePlace {
  const place = treePath(layout, path);
  const stats = statsNow(place);
  if (stats === null) return { kind: 'gone' };
  if (stats.isDirectory()) return { kind: 'folder' };
  if (!stats.isSymbolicLink()) return { kind: 'other' };
  const name = treeNameIn(path, linkNow(place) ?? '');
  if (name === null) return { kind: 'other' };
  return { kind: isLinkedTreeThere(layout, name) ? 'link' : 'dangling', name };
}

/** Whether a tree that a link may lead to is there, and is reached through no other link. @throws as {@link treeAt} */
export function isLinkedTreeThere(layout: DirectoryLayout, name: string): boolean {
  const tree = linkedTree(layout, name);
  return [layout.trees, dirname(tree), tree].every(isFolder);
}

/** The folder that holds the files of a target, whether it is there or not. @throws as {@link treeAt} */
export function publishedTree(layout: DirectoryLayout, path: string): string {
  return folderAt(layout, path, treeAt(layout, path));
}

/** As {@link publishedTree}, for a place that was looked at. */
export function folderAt(layout: DirectoryLayout, path: string, place: TreePlace): string {
  if (place.kind === 'dangling') return join(layout.trees, 'gone');
  return place.kind === 'link' ? linkedTree(layout, place.name) : treePath(layout, path);
}

/**
 * The way from the directory down to the folder that holds the files of a target, none of which is a link.
 * @throws as {@link treeAt}
 */
export function wayToTree(layout: DirectoryLayout, path: string): readonly string[] {
  const place = treeAt(layout, path);
  return (place.kind === 'link' ? placeBelowRoot(place.name) : `mirror/${path}`).split('/');
}

function isFolder(path: string): boolean {
  return statsNow(path)?.isDirectory() === true;
}
