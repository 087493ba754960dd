import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { SettingsFor } from '../../config/schema.ts';
import { closing } from '../../lib/concurrency/shared-work.ts';
import { withTemporaryFolder } from '../../lib/disk/temporary.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { describeAmount } from '../../lib/time/gauge.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { type Reception, repositoryFacts } from '../../mirror/pass/context.ts';
import { PullMeter } from '../../mirror/pass/events.ts';
import { changesSince, newManifest } from '../../mirror/pass/new-manifest.ts';
import { agreedList } from '../../mirror/pass/pull.ts';
import { receive } from '../../mirror/pass/receive.ts';
import { type Action, HOLD_REASONS, type PlanInput } from '../../mirror/plan/actions.ts';
import { makePlan } from '../../mirror/plan/plan.ts';
import { readStore } from '../../mirror/store/directory.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { stageIn } from '../../mirror/store/publish/stage.ts';
import type { ServiceClient } from '../../mirror/upstream/client.ts';
import { connect, recallInstallation } from '../installation.ts';
import { archiveLimitsOf, policyOf } from '../open-mirror.ts';
import { type MirrorReader, withReader } from '../open-reader.ts';
import { type DiffReport, readTarget, refuseUnknown, reportOn } from './diff-report.ts';
import type { RequestOf } from './requests.ts';
import type { TaskWork } from './task.ts';

/**
 * Compares the published state of a target with its state in the service. Publishes nothing, and writes only to a folder below
 * TMPDIR, which it removes.
 * @throws MirrorError `target.unknown`, `listing.*`, `service.*`, `credentials.refused`, `contents.*`, `archive.*`, `disk.*`,
 *   `directory.unusable`, `pass.abandoned`
 */
export async function diffUpstream(
  { settings: { ofMirror }, signal, emit, tell }: TaskWork,
  { target: path }: RequestOf<'diff'>,
): Promise<DiffReport> {
  const settings = ofMirror();
  const meter = new PullMeter(path, null);
  const onProgress = (): void => tell(`${path}: ${describeAmount(meter.progress())}`);
  try {
    return await withReader(settings, emit, async (reader) => {
      const { memory } = await recallInstallation(reader.state, settings.service.baseUrl);
      // A target that another instance mirrors can be compared as well: this one's share is no matter.
      const { shard: _shard, ...whole } = settings;
      const client = connect(whole, memory, emit, { onProgress });
      return closing(client, () => compare(settings, reader, path, { client, meter, signal }));
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new MirrorError('pass.abandoned', 'The comparison was interrupted.', { cause: error });
  }
}

async function compare(
  settings: SettingsFor<'service' | 'directory'>,
  { records, store }: MirrorReader,
  path: string,
  { client, meter, signal }: Pick<Reception, 'meter' | 'signal'> & { readonly client: ServiceClient },
): Promise<DiffReport> {
  const listing = await client.poll(signal, true);
  const { layout, inventory } = settings.shard === undefined ? store : await readStore(settings.directory);
  inventory.recall([...records.values()].flatMap(({ tree }) => tree ?? []));
  const { published, unreadable } = await inventory.read();
  const policy = policyOf(settings);
  const nowMs = Date.now();
  const facts = { listing, published, unreadable: new Set(unreadable), policy, nowMs };
  const planned = planComparison(facts, path);
  const target = await readTarget(layout, planned?.action.published?.path ?? path);
  const gone = reportOn(target.path, target.published, null, 'lists');
  if (planned === null) {
    await refuseUnknown(layout, path, target);
    return gone;
  }
  const { plan, action, isAsListed } = planned;
  if (action.kind === 'hold' && action.reason !== 'restored') {
    throw new MirrorError(
      'listing.inconsistent',
      `The service's lists do not tell what is at ${path} now: it ${HOLD_REASONS[action.reason].says}.`,
      { hint: `Try again later; \`${ownCommand('plan')}\` shows the reason.` },
    );
  }
  if (action.kind !== 'pull') return gone;
  const manifest = target.published?.manifest ?? null;
  if (isAsListed && !isWorthAsking(manifest))
    return reportOn(target.path, target.published, target.published, 'lists');
  const context = { service: client, archiveLimits: archiveLimitsOf(settings) };
  const about = repositoryFacts({ listing, plan })(action);
  const reception = { ...about, context, action, meter, isInDoubt: false, onProgress: () => {}, signal };
  const present = await receivePresentState(reception, manifest, nowMs);
  if (present === null) await refuseUnknown(layout, path, target);
  return reportOn(target.path, target.published, present && { manifest: present, left: null }, 'contents');
}

/** The facts that decide how the present state of a target is found out. */
type ComparisonFacts = Pick<PlanInput, 'listing' | 'published' | 'unreadable' | 'policy' | 'nowMs'>;

/**
 * Decides how the present state of a target is found out: by the plan of an instance that mirrors everything, remembers nothing, and
 * lets everything through, as nothing is published.
 * @param path below `mirror/`: the place of its tree, present or future
 * @returns the action that shows the state: a pull, unless the lists show that the target is gone, or show nothing. `isAsListed`: whether the
 *   lists show the published state, so that its contents are requested only if that is cheap. Null if neither side has the target
 */
export function planComparison(facts: ComparisonFacts, path: string) {
  const plan = planWithout(facts, Number.POSITIVE_INFINITY);
  const action = actionAt(plan, path);
  if (action?.kind !== 'keep') return action === undefined ? null : { action, plan, isAsListed: false };
  // Act as a full check would.
  const check = actionAt(planWithout(facts, 0), path) ?? action;
  const asFacts: Action = check.kind === 'pull' ? { ...check, depth: 'facts' } : check;
  return { action: asFacts, plan, isAsListed: true };
}

/** The tree at a path comes before one that belongs there. */
function actionAt(plan: readonly Action[], path: string): Action | undefined {
  const isThere = ({ published }: Action): boolean => published?.path === path;
  return plan.find(isThere) ?? plan.find((action) => action.path === path);
}

function planWithout({ policy, ...facts }: ComparisonFacts, fullCheckMs: number): Action[] {
  return makePlan({
    ...facts,
    others: [],
    shard: null,
    records: new Map(),
    approvals: new Map(),
    policy: {
      ...policy,
      selection: { ...policy.selection, selects: () => true },
      guard: { targets: { kind: 'off' }, files: { kind: 'off' } },
      retireAfterPasses: 1,
      processingPatienceMs: 0,
      fullCheckMs,
    },
    retries: 'all',
  });
}

/**
 * Receives a target's state from the service as a pull does, with the same limits, into a temporary folder: neither the mirror nor its
 * tree is looked at. The manifest of the published tree is trusted, so that unchanged files are not written.
 * @param published the manifest of the published tree; null without a tree
 * @returns null if the service has nothing
 * @throws MirrorError `contents.*`, `archive.*`, `service.*`, `credentials.refused`, `disk.*`
 */
function receivePresentState(
  reception: Reception,
  published: Manifest | null,
  nowMs: number,
): Promise<Manifest | null> {
  return inTemporaryFolder(async (folder) => {
    const before = { manifest: published, isDamaged: false, foreign: [], isTrusted: () => true };
    const stage = stageIn(folder, { target: reception.action.path, published: join(folder, 'none') });
    await mkdir(stage.tree);
    const received = await receive(reception, stage, before);
    if (received === null) return null;
    const changes = changesSince(published, received.files);
    const listed = await agreedList(reception, received, changes, null, () => nowMs);
    return newManifest(reception, received, changes, listed, nowMs);
  });
}

/**
 * Whether to request contents although the lists show nothing new: the lists omit files that are no workbooks, and with an entity
 * tag the answer is short if nothing changed.
 */
function isWorthAsking(published: Manifest | null): boolean {
  if (published === null || published.etag === null) return false;
  return published.repository.url !== null || published.files.some(({ workbook }) => workbook === undefined);
}

/** Works in a temporary folder. An error of the disk there names that folder. */
async function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  try {
    return await onDisk('comparing', () => withTemporaryFolder('diff', work));
  } catch (error) {
    if (!(error instanceof MirrorError) || !error.code.startsWith('disk.')) throw error;
    const remedy = error.code === 'disk.full' ? 'Make room in' : 'Check the folder';
    const hint = `${remedy} ${tmpdir()}, or name another folder in the variable TMPDIR (of the daemon, if one runs).`;
    throw new MirrorError(error.code, error.message, { cause: error, hint });
  }
}
