import type { WorkbookRow } from '../upstream/listing.ts';

/**
 * The rows with the paths that the contents give their files: a service may list a name in another Unicode form than it has in the
 * contents (NFC and NFD of one text). A row keeps its path where that is the path of a file, and where it is not plain which file it
 * means: only one listed path and one file may have the same normalised form.
 * @param paths of the files
 * @returns one for each row, in their order; the same array where every path is that of a file
 */
export function rowsAtFiles(rows: readonly WorkbookRow[], paths: Iterable<string>): readonly WorkbookRow[] {
  const files = new Set(paths);
  const listed = new Set(rows.map((row) => row.path));
  if ([...listed].every((path) => files.has(path))) return rows;
  const filesByForm = Map.groupBy(files, formOf);
  const listedByForm = Map.groupBy(listed, formOf);
  return rows.map((row) => {
    const form = formOf(row.path);
    const [path, ...others] = filesByForm.get(form) ?? [];
    const isPlain = others.length === 0 && listedByForm.get(form)?.length === 1;
    return path === undefined || !isPlain || path === row.path ? row : { ...row, path };
  });
}

function formOf(path: string): string {
  return path.normalize('NFC');
}
