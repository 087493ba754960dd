import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { describeAmount, Gauge } from '../../lib/time/gauge.ts';
import { counted } from '../../lib/text/humanize.ts';
import { readStore } from '../../mirror/store/directory.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import { LeasedError, refuseLeased } from '../../mirror/store/leases.ts';
import { checkTargetList, readTargetList, saveTargets } from '../../mirror/store/documents.ts';
import {
  damagedTargets,
  repairFromDisk,
  type VerifyEvent,
  type VerifyReport,
  verifyTrees,
} from '../../mirror/store/verify/verify.ts';
import { noteDrift, noteForRepair } from '../drift-notes.ts';
import { refuseMissing } from '../open-reader.ts';
import type { RequestOf } from './requests.ts';
import type { IdleMirror, TaskWork } from './task.ts';

/** A verification, and the one after the repair; null if nothing needed repair. */
export type RepairReport = Awaited<ReturnType<typeof repair>>;

/**
 * Compares every byte of published trees with their manifests, and repairs those that differ: with what the disk has where that is
 * enough, by a pass otherwise. Each of several instances repairs its own trees.
 * @throws MirrorError `directory.*`, `publish.leased`, `settings.invalid`, what ends a pass, `pass.abandoned`
 */
export async function repair(work: TaskWork, request: RequestOf<'repair'>) {
  const settings = work.settings.ofDirectory();
  await refuseMissing(settings.directory);
  // Take the lock before reading everything, which takes long: another process may have it.
  await work.whileIdle(({ store }) => refuseLeased(store.layout, Date.now()));
  const layout = layoutOf(settings.directory, settings.shard);
  const options = { expected: request.expect ?? null, signal: work.signal };
  const verify = (chosen: ReadonlySet<string> | null): Promise<VerifyReport> =>
    verifyTrees(layout, { ...options, chosen, onEvent: verifyProgress(work.tell) });
  const before = await verify(await chosenOf(settings, request.targets));
  work.signal.throwIfAborted();
  const damaged = damagedTargets(before);
  if (damaged.length === 0 && before.inventory !== 'damaged') return { before, repaired: null, after: null };
  const onDisk = await work.whileIdle((mirror) => repairOnDisk(mirror, damaged, work.signal));
  const left = damaged.filter((path) => !onDisk.fromDisk.includes(path));
  const pulled: string[] = [];
  if (left.length > 0) {
    const { failure, targets } = await work.makePass(left, work.emit);
    if (failure !== null) throw new MirrorError(failure.code, failure.message, { hint: failure.hint });
    const ofPass = new Set(targets.flatMap(({ target, outcome }) => (outcome === 'pulled' ? target : [])));
    pulled.push(...left.filter((path) => ofPass.has(path)));
  }
  // The pass retired a target that is neither published nor in the inventory any more.
  const known = await knownTargets(layout);
  const after = await verify(new Set(damaged.filter((path) => known.has(path))));
  // From their intact files and from the history, or by a pass.
  return { before, repaired: { ...onDisk, pulled }, after };
}

/** The targets that have a manifest, or that the inventory names. @throws MirrorError `disk.*` */
export async function knownTargets(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  const { targets } = await readTargetList(layout);
  return new Set([...(await manifestPaths(layout)), ...targets.map(({ path }) => path)]);
}

/** The targets to verify: for one of several instances, all except those of the others. */
async function chosenOf(
  { directory, shard }: SettingsFor<'directory'>,
  targets: readonly string[] | undefined,
): Promise<ReadonlySet<string> | null> {
  if (shard === undefined) return targets === undefined ? null : new Set(targets);
  const { layout, inventory } = await readStore(directory, shard);
  const { others } = await inventory.read();
  const ofOthers = new Set(others.map(({ path }) => path));
  const chosen = targets ?? [...(await knownTargets(layout))];
  return new Set(chosen.filter((path) => !ofOthers.has(path)));
}

/** Repairs trees from the disk, and the inventory. Notes the other trees for a pass. */
async function repairOnDisk(mirror: IdleMirror, damaged: readonly string[], signal: AbortSignal) {
  const { store, isPulling } = mirror;
  await refuseLeased(store.layout, Date.now());
  const fromDisk: string[] = [];
  for (const path of damaged) {
    // If the disk refuses the repair of a target, a pass may still do it, or reports the reason.
    const isRepaired = !isPulling(path) && (await repairFromDisk(store, path, signal).catch(unlessLeased));
    signal.throwIfAborted();
    if (isRepaired) fromDisk.push(path);
    // A target that is lost with its manifest is new to the plan, and has nothing to note; one whose manifest cannot be read waits for it.
    const noted = isRepaired ? noteDrift(mirror, path, null) : noteForRepair(mirror, path, BYTES, Date.now());
    await noted.catch(unlessLeased);
  }
  const inventoryWritten = (await checkTargetList(store)).inventory === 'damaged';
  if (inventoryWritten) await saveTargets(store, []);
  return { fromDisk, inventoryWritten };
}

function unlessLeased(error: unknown): false {
  if (error instanceof LeasedError) throw error;
  return false;
}

/** The differences of a tree that was verified, byte by byte. */
const BYTES = [{ path: '.', kind: 'modified', what: ['bytes'] }] as const;

/** Describes the progress of a verification. */
export function verifyProgress(tell: (text: string) => void): (event: VerifyEvent) => void {
  let gauge = new Gauge(null);
  let [selected, examined] = [0, 0];
  return (event) => {
    if (event.kind === 'started') {
      selected = event.selected;
      gauge = new Gauge(event.totalBytes);
    } else if (event.kind === 'read') gauge.add(event.bytes);
    else examined += 1;
    tell(`${examined} of ${counted(selected, 'target')}, ${describeAmount(gauge.amount())}`);
  };
}
