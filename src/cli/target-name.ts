import { relative, resolve } from 'node:path';

/**
 * The path below `mirror/` that a person means: one on disk, absolute or from the working directory, one that begins with
 * `mirror/` or `history/`, or the path itself.
 * @param mirror the folder `mirror/`
 */
export function namedPath(asked: string, mirror: string): string {
  const onDisk = resolve(asked);
  const isOnDisk = onDisk.startsWith(`${mirror}/`);
  const path = isOnDisk ? relative(mirror, onDisk) : asked.replace(/^(?:\.\/)?(?:mirror|history)\//, '');
  return path.replace(/\/+$/, '');
}
