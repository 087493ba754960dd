import { join } from 'node:path';

const SHARED = join(import.meta.dirname, '../page');

/** The folders that a page is made of: its own and what the pages share. They lie beside the program's, as sources and when compiled. */
export function pageFolders(own: string): readonly string[] {
  return [own, SHARED];
}
