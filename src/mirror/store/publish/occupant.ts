import { lstat } from 'node:fs/promises';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { type DirectoryLayout, treePath } from '../layout.ts';
import { treeAt } from '../published-tree.ts';
import type { Occupant } from './moves.ts';

/** Looks at what stands at the place of a target's tree; null for nothing. @throws system errors */
export async function occupantAt(layout: DirectoryLayout, path: string): Promise<Occupant | null> {
  const stats = await unlessMissing(lstat(treePath(layout, path)));
  return stats === null ? null : { inode: stats.ino, isLink: 'name' in treeAt(layout, path) };
}
