import { join } from 'node:path';

/** The files of the pages lie beside the program's, as sources and when compiled. */
function folderOf(name: string): string {
  return join(import.meta.dirname, '..', name);
}

/** The folders that the status page is made of. */
export const STATUS_PAGE_FOLDERS: readonly string[] = [folderOf('page'), folderOf('page-base')];

/** The folders that the page for uploads is made of. */
export const UPLOAD_PAGE_FOLDERS: readonly string[] = [folderOf('upload-page'), folderOf('page-base')];
