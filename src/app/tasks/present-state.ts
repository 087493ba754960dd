import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Comparison } from './comparison.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { stageIn } from '../../mirror/store/publish/stage.ts';
import type { Reception } from '../../mirror/pass/context.ts';
import { receive } from '../../mirror/pass/receive.ts';
import { changesSince, newManifest } from '../../mirror/pass/new-manifest.ts';

/** The service's state of a target. */
export interface PresentState {
  /** Null if it has nothing. */
  readonly manifest: Manifest | null;
  /** The source: its contents, or only its lists. */
  readonly by: 'contents' | 'lists';
}

/** The means to receive a target's state from the service. */
export interface Inquiry extends Omit<Reception, 'action'> {
  readonly comparison: Exclude<Comparison, { kind: 'gone' | 'untold' }>;
  /** A private folder, which may be on any file system. */
  readonly folder: string;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

/**
 * Receives a target's state from the service as a pull does, with the same limits, into a private folder: neither the mirror nor its
 * tree is looked at. The manifest of the published tree is trusted, so that unchanged files are not written.
 * @param published the manifest of the published tree; null without a tree
 * @throws MirrorError `contents.*`, `archive.*`, `service.*`, `credentials.refused`, `disk.*`
 */
export async function receivePresentState(
  inquiry: Inquiry,
  published: Manifest | null,
): Promise<PresentState> {
  const { comparison, folder, nowMs } = inquiry;
  if (comparison.kind === 'as-listed' && !isWorthAsking(published))
    return { manifest: published, by: 'lists' };
  const { action } = comparison;
  const reception = { ...inquiry, action };
  const before = { manifest: published, isDamaged: false, foreign: [], isTrusted: () => true };
  const facts = {
    target: action.path,
    published: join(folder, 'none'),
    manifestInode: null,
    flushMark: 0,
    timeStepMs: 1,
  };
  const stage = stageIn(folder, facts);
  await mkdir(stage.tree);
  const received = await receive(reception, stage, before);
  if (received === null) return { manifest: null, by: 'contents' };
  const manifest = newManifest(reception, received, changesSince(published, received.files), nowMs);
  return { manifest, by: 'contents' };
}

/**
 * Whether to request contents although the lists show nothing new: the lists omit files that are no workbooks, and with an entity
 * tag the answer is short if nothing changed.
 */
function isWorthAsking(published: Manifest | null): boolean {
  if (published === null || published.etag === null) return false;
  return published.repository.url !== null || published.files.some(({ workbook }) => workbook === undefined);
}
