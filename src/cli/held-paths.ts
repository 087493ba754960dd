import type { TargetRecord } from '../mirror/plan/record.ts';
import { readHeldFiles } from '../mirror/store/held-files.ts';
import type { StoreReader } from '../mirror/store/read-store.ts';

/**
 * The files that the held deletion of a target is about, sorted: all of them or, where what is kept of them is lost, the first.
 * @param path of the target, as below `mirror/`
 */
export async function heldPaths(
  { layout, manifest }: Pick<StoreReader, 'layout' | 'manifest'>,
  path: string,
  { target, held }: TargetRecord,
): Promise<readonly string[]> {
  switch (held?.subject) {
    case 'files':
      return (await readHeldFiles(layout, target, held.digest ?? '')) ?? held.first;
    case 'target':
    case 'restored':
      return (await manifest(path))?.files.map((file) => file.path) ?? held.first;
    case 'deselected':
    case undefined:
      return [];
  }
}
