import { tmpdir } from 'node:os';

import type { SettingsFor } from '../../config/schema.ts';
import { withTemporaryFolder } from '../../lib/disk/temporary.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { describeAmount } from '../../lib/time/gauge.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { repositoryFacts } from '../../mirror/pass/context.ts';
import { PullMeter } from '../../mirror/pass/events.ts';
import { HOLD_REASONS } from '../../mirror/plan/actions.ts';
import { readStore } from '../../mirror/store/directory.ts';
import type { ServiceClient } from '../../mirror/upstream/client.ts';
import type { Listing } from '../../mirror/upstream/listing.ts';
import type { EventSink } from '../events.ts';
import { connect, recallInstallation } from '../installation.ts';
import { archiveLimitsOf, policyOf } from '../open-mirror.ts';
import { type MirrorReader, withReader } from '../open-reader.ts';
import { planComparison } from './comparison.ts';
import {
  type DiffReport,
  NOTHING,
  readTarget,
  refuseUnknown,
  reportOn,
  type TargetState,
} from './diff-report.ts';
import { type Inquiry, receivePresentState } from './present-state.ts';
import type { TaskWork } from './task.ts';

/**
 * Compares the published state of a target with its state in the service. Publishes nothing, and writes only to a folder below
 * TMPDIR, which it removes.
 * @param request.target its path below `mirror/`
 * @throws MirrorError `target.unknown`, `listing.*`, `service.*`, `credentials.refused`, `contents.*`, `archive.*`, `disk.*`,
 *   `directory.unusable`, `pass.abandoned`
 */
export async function diffUpstream(
  { settings: { ofMirror }, signal, report }: TaskWork,
  { target: path }: { readonly target: string },
): Promise<DiffReport> {
  const settings = ofMirror();
  const emit: EventSink = (event) => report({ event });
  const meter = new PullMeter(path, null);
  const onProgress = (): void => report({ text: `${path}: ${describeAmount(meter.progress())}` });
  try {
    return await withReader(settings, emit, async (reader) => {
      const memory = await recallInstallation(reader.state, settings.service.baseUrl);
      // A target that another instance mirrors can be compared as well: this one's share is no matter.
      const { shard: _shard, ...whole } = settings;
      const client = connect(whole, memory, emit, { onProgress });
      try {
        const listing = await client.poll(signal, true);
        return await compare(settings, reader, path, { client, listing, meter, signal });
      } finally {
        await client.close();
      }
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new MirrorError('pass.abandoned', 'The comparison was interrupted.', { cause: error });
  }
}

/** The client of the service, and its lists. */
interface ServiceWork extends Pick<Inquiry, 'meter' | 'signal'> {
  readonly client: ServiceClient;
  readonly listing: Listing;
}

async function compare(
  settings: SettingsFor<'service' | 'directory'>,
  { records, store }: MirrorReader,
  path: string,
  { client, listing, meter, signal }: ServiceWork,
): Promise<DiffReport> {
  const { layout, inventory } = settings.shard === undefined ? store : await readStore(settings.directory);
  inventory.recall([...records.values()].flatMap(({ tree }) => tree ?? []));
  const { published, unreadable } = await inventory.read();
  const policy = policyOf(settings);
  const nowMs = Date.now();
  const facts = { listing, published, unreadable: new Set(unreadable), policy, nowMs };
  const comparison = planComparison(facts, path);
  const target = await readTarget(layout, comparison?.action.published?.path ?? path);
  if (comparison === null) await refuseUnknown(layout, path, target);
  if (comparison === null || comparison.kind === 'gone')
    return reportOn(target.path, target.published, NOTHING, 'lists');
  if (comparison.kind === 'untold') {
    throw new MirrorError(
      'listing.inconsistent',
      `The service's lists do not tell what is at ${path} now: it ${HOLD_REASONS[comparison.reason].says}.`,
      { hint: `Try again when they do; \`${ownCommand('plan')}\` shows what a pass makes of them.` },
    );
  }
  const { manifest } = target.published;
  const context = { service: client, archiveLimits: archiveLimitsOf(settings) };
  const about = repositoryFacts({ listing, plan: comparison.plan })(comparison.action);
  const inquiry = { ...about, context, policy, comparison, meter, onProgress: () => {}, signal, nowMs };
  const present = await inTemporaryFolder((folder) => receivePresentState({ ...inquiry, folder }, manifest));
  if (present.manifest === null) await refuseUnknown(layout, path, target);
  const inService: TargetState =
    present.manifest === null ? NOTHING : { place: 'service', manifest: present.manifest, left: null };
  return reportOn(target.path, target.published, inService, present.by);
}

/** Works in a temporary folder. An error of the disk there names that folder. */
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
