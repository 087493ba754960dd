import { MirrorError } from '../../lib/errors/errors.ts';
import type { ManifestFile } from '../store/manifest.ts';
import { openArchive } from '../archive/archive.ts';
import { ArchiveDestination, type ArchiveSource } from '../archive/archive-destination.ts';
import type { EarlyPolicy } from '../archive/early-unpacker.ts';
import type { Cached } from '../upstream/headers.ts';
import type { ContentsAnswer } from '../upstream/download-contents.ts';
import type { Reception } from './execution.ts';
import type { Stage } from '../store/publish/stage.ts';
import type { PublishedState } from './published-state.ts';
import { goesPastCache, type Unpacked, unpack } from './unpack.ts';

/** The new state of a target, as far as it is staged or published already. */
export interface Received extends Unpacked {
  readonly kind: 'received';
  /** Strong entity tag of the whole contents; null where there is none. */
  readonly etag: string | null;
  readonly archiveBytes: number;
  readonly downloadedBytes: number;
  /** Whether the whole contents were compared, and not just the workbooks with new versions. */
  readonly isWhole: boolean;
  /** When the whole contents were last compared. Milliseconds since the epoch. */
  readonly comparedAtMs: number;
  /** Null where the service itself gave the contents, and no cache. */
  readonly cached: Cached | null;
}

type NotFound = Extract<ContentsAnswer, { kind: 'not-found' }>;

/** The new state from the whole contents, or, where the service says that nothing changed, from what is published. */
export async function receiveWhole(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
): Promise<Received | NotFound> {
  const { listedAtMs } = reception;
  const whole = { kind: 'received', isWhole: true, comparedAtMs: listedAtMs } as const;
  const answer = await receiveArchive(reception, stage, before);
  if (answer.kind === 'not-found') return answer;
  if (answer.kind === 'unpacked') return { ...whole, ...answer.received };
  if (before.manifest === null) {
    throw new MirrorError(
      'contents.wrong_kind',
      'The service says "not modified" to an unconditional request.',
    );
  }
  const { files, skipped, etag, archiveBytes, isThorough = true } = before.manifest;
  const same = { files, skipped, rewritten: [], isThorough, etag, archiveBytes, downloadedBytes: 0 };
  return { ...whole, ...same, cached: answer.cached };
}

/** Tells contents apart as far as their size and checksum do. */
function contentKey({ sizeBytes, crc32 }: Pick<ManifestFile, 'sizeBytes' | 'crc32'>): string {
  return `${sizeBytes} ${crc32 ?? ''}`;
}

/** What is unpacked while the archive arrives: what is likely to be new, so that little is written in vain. */
function earlyPolicy(
  { context, policy }: Reception,
  stage: Stage,
  { manifest }: PublishedState,
): EarlyPolicy {
  // Most archives stay in memory, and nobody asks.
  let published: ReadonlySet<string> | null = null;
  return {
    folder: stage.earlyFolder,
    isNew: (content) => {
      published ??= new Set(manifest?.files.map(contentKey));
      return !published.has(contentKey(content));
    },
    maxUnpackedBytes: context.archiveLimits.maxUnpackedBytes,
    isPastCache: goesPastCache(policy.pageCache, manifest === null),
  };
}

/** The entity tag under which the service may say that nothing changed; none where more than that is to be found out. */
function knownTag(
  { action: { conditional, depth } }: Reception,
  { manifest, isDamaged }: PublishedState,
): string | null {
  if (!conditional || isDamaged || manifest === null) return null;
  return depth === 'bytes' && manifest.isThorough === false ? null : manifest.etag;
}

/** The contents of an archive, as they were unpacked. */
interface UnpackedAnswer {
  readonly kind: 'unpacked';
  readonly received: Unpacked & Pick<Received, 'etag' | 'archiveBytes' | 'downloadedBytes' | 'cached'>;
}

/** An archive from which entries were taken as it arrived is damaged, as far as the rest tells. */
interface DamagedAnswer {
  readonly kind: 'damaged';
}

type WithoutArchive = Exclude<ContentsAnswer, { kind: 'archive' }>;

/**
 * Downloads the whole contents, where they may have changed, and unpacks them into the stage. One that turns out damaged when a part of
 * it is unpacked already is downloaded again and kept whole, to be judged by all of its bytes.
 */
async function receiveArchive(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
): Promise<UnpackedAnswer | WithoutArchive> {
  const policy = earlyPolicy(reception, stage, before);
  const answer = await tryToReceive(reception, stage, before, policy);
  if (answer.kind !== 'damaged') return answer;
  await stage.startAnew();
  const again = await tryToReceive(reception, stage, before, { ...policy, isNew: () => false });
  if (again.kind === 'damaged') throw new MirrorError('internal.defect', 'Entries were taken all the same.');
  return again;
}

async function tryToReceive(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
  policy: EarlyPolicy,
): Promise<UnpackedAnswer | DamagedAnswer | WithoutArchive> {
  const { context, action, repository, signal, meter } = reception;
  meter.downloads();
  const destination = new ArchiveDestination(stage.archivePath, context.archiveMemory, policy);
  try {
    const answer = await context.service.download({
      repository,
      branch: action.target.branch,
      etag: knownTag(reception, before),
      destination,
      onArrived: (doneBytes, totalBytes) => meter.arrived(doneBytes, totalBytes),
      signal,
    });
    if (answer.kind !== 'archive') return answer;
    const { etag, sizeBytes, cached } = answer;
    const unpacked = await openAndUnpack(reception, stage, before, destination.source(), answer);
    if (unpacked === null) return { kind: 'damaged' };
    const received = { ...unpacked, etag, archiveBytes: sizeBytes, downloadedBytes: sizeBytes, cached };
    return { kind: 'unpacked', received };
  } finally {
    await destination.discard();
  }
}

/** @returns null for an archive that is damaged, and of which not all bytes are there any more */
async function openAndUnpack(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
  source: ArchiveSource,
  { hasFileTimes }: Extract<ContentsAnswer, { kind: 'archive' }>,
): Promise<Unpacked | null> {
  try {
    const archive = await openArchive(source, reception.context.archiveLimits);
    try {
      return await unpack(reception, archive, stage, before, hasFileTimes);
    } finally {
      await archive.close();
    }
  } catch (error) {
    const isPartial = source.kind === 'file' && source.early.size > 0;
    if (isPartial && error instanceof MirrorError && error.code === 'archive.damaged') return null;
    throw error;
  }
}
