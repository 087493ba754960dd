import { MirrorError } from '../../lib/errors/errors.ts';
import type { FolderEntry } from '../http/library.ts';
import type { Git } from './git.ts';
import { parseTreeRecord } from './objects.ts';

/**
 * Reads one record of `ls-tree -l -z` on a folder.
 * @returns null for what is neither a file nor a folder: a submodule has no content in this repository
 * @throws MirrorError `service.failed` for anything but a record
 */
export function parseFolderRecord(record: string): FolderEntry | null {
  const object = parseTreeRecord(record);
  if (object === null) throw new MirrorError('service.failed', 'git gave an empty record of a folder');
  if (object.type === 'commit') return null;
  const name = record.slice(record.indexOf('\t') + 1);
  return object.type === 'tree'
    ? { name, kind: 'folder', sizeBytes: 0 }
    : { name, kind: 'file', sizeBytes: object.sizeBytes };
}

/**
 * Reads what a folder holds, in the order of Git.
 * @param treeId of a commit or a tree that exists
 * @throws MirrorError `service.failed` when git cannot
 */
export async function readFolder(git: Git, gitDirectory: string, treeId: string): Promise<FolderEntry[]> {
  const entries: FolderEntry[] = [];
  await git.tokens(gitDirectory, ['ls-tree', '-l', '-z', '--full-tree', treeId], (record) => {
    const entry = parseFolderRecord(record);
    if (entry !== null) entries.push(entry);
  });
  return entries;
}
