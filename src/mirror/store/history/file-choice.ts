import type { ManifestFile } from '../manifest.ts';

/** The files of a tree that a path means. */
export type Chosen =
  | { readonly kind: 'file'; readonly files: readonly ManifestFile[] }
  /** All below a folder. */
  | { readonly kind: 'folder'; readonly files: readonly ManifestFile[] };

/**
 * The files of a tree that a person means by a path: a file or, else, all below a folder. A file is also found by the same path in
 * another Unicode form, which nobody sees it by, where there is but one.
 * @param paths the ways in which the path can be read, below the tree; the first that leads to something counts
 * @returns null where none does
 */
export function chooseFiles(files: readonly ManifestFile[], paths: readonly string[]): Chosen | null {
  for (const path of paths) {
    const exact = files.filter((file) => file.path === path);
    if (exact.length > 0) return { kind: 'file', files: exact };
    const below = path === '' ? [] : files.filter((file) => file.path.startsWith(`${path}/`));
    if (below.length > 0) return { kind: 'folder', files: below };
  }
  for (const path of paths) {
    const form = path.normalize('NFC');
    const same = files.filter((file) => file.path.normalize('NFC') === form);
    if (same.length === 1) return { kind: 'file', files: same };
  }
  return null;
}
