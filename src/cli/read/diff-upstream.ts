import { tmpdir } from 'node:os';
import type { SettingsFor } from '../../config/schema.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { withTemporaryFolder } from '../../lib/disk/temporary.ts';
import { abortOnSignal, STOP_SIGNALS } from '../../lib/process/signals.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { describeAmount } from '../../lib/text/amount.ts';
import { archiveLimitsOf, policyOf } from '../../app/open-mirror.ts';
import { connect, recallInstallation } from '../../app/installation.ts';
import type { MirrorReader } from '../../app/open-reader.ts';
import { type Inquiry, type PresentState, receivePresentState } from '../../app/tasks/present-state.ts';
import { PullMeter } from '../../mirror/pass/events.ts';
import { repositoryFacts } from '../../mirror/pass/execute.ts';
import { planComparison } from '../../app/tasks/comparison.ts';
import { HOLD_REASONS } from '../../mirror/plan/actions.ts';
import { readStore } from '../../mirror/store/directory.ts';
import type { ServiceClient } from '../../mirror/upstream/client.ts';
import type { Listing } from '../../mirror/upstream/listing.ts';
import { readTarget, refuseUnknown, type TargetOnDisk } from './diff-states.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { liveLineOptions, tellEvent } from '../frame/output.ts';
import { withReader } from '../../app/open-reader.ts';

/** A target on disk, and what the service has of it now. */
export interface TargetInService {
  readonly target: TargetOnDisk;
  readonly present: PresentState;
}

/**
 * Asks the service what it has of a target now. Takes no lock, and writes nothing but to a folder below TMPDIR, which it removes.
 * @param asked as the person named it
 * @param path below `mirror/`
 * @throws MirrorError `target.unknown`, `listing.*`, `service.*`, `credentials.refused`, `contents.*`, `archive.*`, `disk.*`,
 *   `pass.abandoned`
 */
export async function askService(
  settings: SettingsFor<'service' | 'directory'>,
  asked: string,
  path: string,
): Promise<TargetInService> {
  // What was downloaded must not stay behind when a terminal is closed, either.
  const { signal, stopListening } = abortOnSignal([...STOP_SIGNALS, 'SIGHUP']);
  const line = createLiveLine(liveLineOptions());
  const meter = new PullMeter(path, null);
  const onProgress = (): void => line.show(() => `${path}: ${describeAmount(meter.progress())}`);
  try {
    return await withReader(settings, tellEvent, async (reader) => {
      const memory = await recallInstallation(reader.state, settings.service.baseUrl);
      // A target that another instance mirrors can be compared as well: this one's share is no matter.
      const { shard: _shard, ...whole } = settings;
      const client = connect(whole, memory, tellEvent, { onProgress });
      try {
        const listing = await client.poll(signal, true);
        const work = { client, listing, meter, signal };
        return await receiveNow(settings, reader, asked, path, work);
      } finally {
        await client.close();
      }
    });
  } catch (error) {
    if (signal.aborted)
      throw new MirrorError('pass.abandoned', 'The comparison was interrupted.', { cause: error });
    throw error;
  } finally {
    line.clear();
    stopListening();
  }
}

/** The way to the service, and what it listed. */
interface ServiceWork extends Pick<Inquiry, 'meter' | 'signal'> {
  readonly client: ServiceClient;
  readonly listing: Listing;
}

async function receiveNow(
  settings: SettingsFor<'service' | 'directory'>,
  { records, store }: MirrorReader,
  asked: string,
  path: string,
  { client, listing, meter, signal }: ServiceWork,
): Promise<TargetInService> {
  const { layout, inventory } = settings.shard === undefined ? store : await readStore(settings.directory);
  inventory.recall([...records.values()].flatMap(({ tree }) => tree ?? []));
  const { published, unreadable } = await inventory.read();
  const policy = policyOf(settings);
  const nowMs = Date.now();
  const facts = { listing, published, unreadable: new Set(unreadable), policy, nowMs };
  const comparison = planComparison(facts, path);
  const target = await readTarget(layout, comparison?.action.published?.path ?? path);
  if (comparison === null) await refuseUnknown(layout, asked, target);
  if (comparison === null || comparison.kind === 'gone')
    return { target, present: { manifest: null, by: 'lists', downloadedBytes: 0 } };
  if (comparison.kind === 'untold') {
    throw new MirrorError(
      'listing.inconsistent',
      `The service's lists do not tell what is at ${path} now: it ${HOLD_REASONS[comparison.reason].says}.`,
      { hint: `Try again when they do; \`${ownCommand('plan')}\` shows what a pass makes of them.` },
    );
  }
  const { manifest } = target.published;
  const context = { service: client, archiveLimits: archiveLimitsOf(settings) };
  const about = repositoryFacts(listing, comparison.plan)(comparison.action);
  const inquiry = { ...about, context, policy, comparison, meter, onProgress: () => {}, signal, nowMs };
  const present = await inTemporaryFolder((folder) => receivePresentState({ ...inquiry, folder }, manifest));
  if (present.manifest === null) await refuseUnknown(layout, asked, target);
  return { target, present };
}

/** Works in a temporary folder. What is wrong with a disk there is wrong with that of the folder. */
async function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  try {
    return await onDisk('comparing', () => withTemporaryFolder('diff', work));
  } catch (error) {
    if (!(error instanceof MirrorError) || !error.code.startsWith('disk.')) throw error;
    const remedy = error.code === 'disk.full' ? 'Make room in' : 'Check the folder';
    throw new MirrorError(error.code, error.message, {
      cause: error,
      hint: `${remedy} ${tmpdir()}, or name another one in the variable TMPDIR.`,
    });
  }
}
