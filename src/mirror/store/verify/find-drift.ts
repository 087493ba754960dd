import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import type { Difference } from './drift.ts';
import type { Manifest } from '../manifest.ts';
import type { Published } from '../../plan/published.ts';
import type { PublishContext } from '../publish/commit.ts';
import { type ExamineOptions, examinePublished } from './examine.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { readManifest } from '../manifest-file.ts';

/** How a published tree differs from a manifest; null when it is not there at all. */
export async function examineAgainst(
  layout: DirectoryLayout,
  path: string,
  { files }: Manifest,
  options: ExamineOptions,
): Promise<readonly Difference[] | null> {
  const { isGone, differences } = await examinePublished(layout, path, files, options);
  return isGone ? null : differences;
}

/** As {@link examineAgainst} by `lstat`, against the present manifest; `changing` when the target is published meanwhile. */
export async function findDrift(
  { layout, activity }: PublishContext,
  path: string,
  signal: AbortSignal,
): Promise<readonly Difference[] | 'changing'> {
  const before = activity.stateOf(path);
  if (before === null) return 'changing';
  const manifest = await onDisk('reading a manifest', () => readManifest(manifestPath(layout, path)));
  if (manifest === null) return [];
  const differences = await examineAgainst(layout, path, manifest, { depth: 'facts', signal });
  if (activity.stateOf(path) !== before) return 'changing';
  return differences ?? [{ path: '.', kind: 'missing' }];
}

/** The target that a path below the directory belongs to; null for none. */
export async function targetOf(
  { layout, linked }: Pick<PublishContext, 'layout' | 'linked'>,
  path: string,
): Promise<string | null> {
  const [top, ...names] = path.split('/');
  if (top === 'trees') return linked.get(names[1] ?? '') ?? null;
  for (let folder = names.join('/'); folder !== '.' && folder !== ''; folder = dirname(folder)) {
    // What cannot even be asked about, as its name is too long with the manifest's ending, is no target.
    const found = await lstat(manifestPath(layout, folder)).catch(() => null);
    if (found !== null) return folder;
  }
  return null;
}

/** The paths of all trees that differ from their manifests, or of which that cannot be said. */
export async function findAllDrifted(
  context: PublishContext,
  published: readonly Published[],
  onScanned: (doneTargets: number, targets: number) => void = () => {},
): Promise<string[]> {
  const drifted: string[] = [];
  for (const [index, { path }] of published.entries()) {
    onScanned(index, published.length);
    const found = await findDrift(context, path, new AbortController().signal).catch(
      () => 'unknown' as const,
    );
    if (typeof found === 'string' || found.length > 0) drifted.push(path);
  }
  onScanned(published.length, published.length);
  return drifted;
}
