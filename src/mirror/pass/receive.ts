import { join } from 'node:path';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ArchiveReceiver } from '../archive/receiver.ts';
import type { Cached } from '../upstream/listing.ts';
import type { ContentsAnswer } from '../upstream/contents.ts';
import { type EndedResult, resultOf } from './results.ts';
import type { KnownFile } from '../file-work/entry-file.ts';
import { STAGED } from '../store/publish/moves.ts';
import { emptyStage, type Stage } from '../store/publish/stage.ts';
import type { PublishedState, Reception, RepositoryFacts } from './context.ts';
import { knownFiles, type Unpacked, unpack } from './unpack.ts';
import type { PullAction } from '../plan/actions.ts';
import { HEAD_BRANCH } from '../upstream/listing.ts';
import type { PassService } from '../upstream/client.ts';

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

/**
 * The new state from the whole contents, or, where the service says that nothing changed, from what is published. Files that are the same
 * as published ones are not written. Where one is needed all the same, as it has another time or path, all are downloaded and written.
 */
export async function receiveWhole(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
): Promise<Received | NotFound> {
  const received = await receiveContents(reception, stage, before, knownFiles(reception, before));
  if (received !== null) return received;
  await emptyStage(stage);
  const whole = await receiveContents(reception, stage, before, []);
  if (whole === null) throw new MirrorError('internal.defect', 'An unpacked file is not there.');
  return whole;
}

/**
 * Downloads the whole contents, where they may have changed, and unpacks them into the stage while they arrive.
 * @param known the files that may stay as they are published
 * @returns null where a file is needed that was not written
 */
async function receiveContents(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
  known: readonly KnownFile[],
): Promise<Received | NotFound | null> {
  const { context, action, repository, listedAtMs, signal, meter } = reception;
  meter.downloads();
  const archive = new ArchiveReceiver({
    tree: stage.tree,
    keptPath: join(stage.folder, STAGED.archive),
    limits: context.archiveLimits,
    known,
  });
  try {
    const answer = await context.service.download({
      repository,
      branch: action.target.branch,
      etag: knownTag(reception, before),
      destination: archive,
      onArrived: (doneBytes, totalBytes) => meter.arrived(doneBytes, totalBytes),
      signal,
    });
    if (answer.kind === 'not-found') return answer;
    const whole = {
      kind: 'received',
      isWhole: true,
      comparedAtMs: listedAtMs,
      cached: answer.cached,
    } as const;
    if (answer.kind === 'unchanged') return { ...whole, ...asPublished(before) };
    const { etag, sizeBytes, hasFileTimes } = answer;
    const onBytes = (bytes: number): void => {
      meter.unpacked(bytes);
      context.onProgress();
    };
    const contents = await archive.finish(onBytes, signal);
    const unpacked = await unpack(reception, contents, stage, before, hasFileTimes);
    return unpacked && { ...whole, ...unpacked, etag, archiveBytes: sizeBytes, downloadedBytes: sizeBytes };
  } finally {
    await archive.release();
  }
}

/** The entity tag under which the service may say that nothing changed; none where more than that is to be found out. */
function knownTag(
  { action: { published, depth } }: Reception,
  { manifest, isDamaged }: PublishedState,
): string | null {
  if (published?.treePresent !== true || isDamaged || manifest === null) return null;
  return depth === 'bytes' && manifest.isThorough === false ? null : manifest.etag;
}

/** The new state where nothing changed. @throws MirrorError `contents.wrong_kind` where nothing is published */
function asPublished({
  manifest,
}: PublishedState): Unpacked & Pick<Received, 'etag' | 'archiveBytes' | 'downloadedBytes'> {
  if (manifest === null)
    throw new MirrorError(
      'contents.wrong_kind',
      'The service says "not modified" to an unconditional request.',
    );
  const { files, skipped, etag, archiveBytes, isThorough = true } = manifest;
  return { files, skipped, rewritten: [], isThorough, etag, archiveBytes, downloadedBytes: 0 };
}

/** The end of a pull of a target of which the service has no contents. @throws MirrorError as {@link refuseDoubtful} */
export async function notFound(reception: Reception, isCertain: boolean): Promise<EndedResult> {
  const { action } = reception;
  await refuseDoubtful(reception, isCertain);
  return resultOf(action, { kind: action.whenAbsent === 'accept' ? 'absent' : 'missing' });
}

/** Refuses an absence of contents that does not prove that the target is gone. @throws MirrorError `contents.not_found` */
export async function refuseDoubtful(reception: Reception, isCertain: boolean): Promise<void> {
  const { context, action, signal } = reception;
  if (action.whenAbsent === 'accept') return;
  const isProof =
    action.whenAbsent === 'count-as-missing' &&
    isCertain &&
    (await isReachable(context.service, action, reception, signal));
  if (!isProof) throw notFoundError(action);
}

/** Whether other contents of a repository are found: only then does a missing branch say something about the branch. */
export async function isReachable(
  service: Pick<PassService, 'exists'>,
  { target }: Pick<PullAction, 'target'>,
  { repository, branches }: Pick<RepositoryFacts, 'repository' | 'branches'>,
  signal: AbortSignal,
): Promise<boolean> {
  const others = branches.filter((branch) => branch !== target.branch);
  for (const branch of [HEAD_BRANCH, ...others]) {
    if (await service.exists({ repository, branch, path: '', signal })) return true;
  }
  return false;
}

/** The error of a branch without contents that may be there all the same. */
export function notFoundError({
  target,
  repository,
}: Pick<PullAction, 'target' | 'repository'>): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(target.branch)} of ${repository.fullName} (status 404).`,
    {
      hint: 'What is mirrored stays as it is. If the setting targets names this branch, check its spelling; otherwise the service contradicts its own lists.',
    },
  );
}
