/** Whether an archive has one folder around everything, by what its names and the listing say. */
export type LeadingFolder =
  | { readonly kind: 'none' }
  | { readonly kind: 'wrapped' | 'unknown'; readonly folder: string };

/**
 * Finds out whether the one folder that all files of an archive lie in, if there is one, belongs to the contents or was
 * put around them by the service: the workbooks' paths in the listing tell.
 * @param paths the archive's file paths
 * @param workbookPaths paths of the repository's workbooks, from the listing
 */
export function findLeadingFolder(paths: readonly string[], workbookPaths: Iterable<string>): LeadingFolder {
  const [first] = paths;
  if (first === undefined || !first.includes('/')) return { kind: 'none' };
  const folder = first.slice(0, first.indexOf('/'));
  if (!paths.every((path) => path.startsWith(`${folder}/`))) return { kind: 'none' };
  const names = new Set(paths.map((path) => path.normalize('NFC')));
  let asIs = 0;
  let wrapped = 0;
  for (const path of workbookPaths) {
    const name = path.normalize('NFC');
    if (names.has(name)) asIs += 1;
    if (names.has(`${folder.normalize('NFC')}/${name}`)) wrapped += 1;
  }
  if (asIs === wrapped) return { kind: 'unknown', folder };
  return wrapped > asIs ? { kind: 'wrapped', folder } : { kind: 'none' };
}
