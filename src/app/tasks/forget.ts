import type { SettingsFor } from '../../config/schema.ts';
import { statsNow } from '../../lib/disk/read.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { treeKey } from '../../mirror/plan/record.ts';
import { owns } from '../../mirror/plan/selection.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import { retireTree } from '../../mirror/store/publish/publish.ts';
import { type DirectoryLayout, treePath } from '../../mirror/store/layout.ts';
import { checkTargetList, readTargetList, saveTargets } from '../../mirror/store/documents.ts';
import { type TargetId, targetKey } from '../../mirror/upstream/listing.ts';
import { type MirrorReader, readTargets, statusPolicyOf, withReader } from '../open-reader.ts';
import { findTargets } from '../target-names.ts';
import type { RequestOf } from './requests.ts';
import type { IdleMirror, TaskWork } from './task.ts';

/** A target that may be forgotten. */
export interface Forgettable {
  readonly target: string;
  readonly id: TargetId;
  /** Why it is not mirrored again: the settings leave it out, the service no longer has it, or only the inventory names it. */
  readonly because: 'deselected' | 'gone' | 'lost';
  /** False if its tree was removed by hand. */
  readonly treePresent: boolean;
  readonly files: number;
  readonly sizeBytes: number;
}

/** Has targets leave the mirror that would not be mirrored again. @throws MirrorError as {@link listForgettable}, `publish.leased` */
export function forget(work: TaskWork, wish: RequestOf<'forget'>): Promise<readonly Forgettable[]> {
  return work.whileIdle(async (mirror) => {
    // A pass since they were listed may have found one in the service again.
    const chosen = await listForgettable(work, wish);
    await forgetNow(mirror, chosen);
    return chosen;
  });
}

/**
 * Looks up targets that would not be mirrored again, and so may be forgotten. Each of several instances names its own.
 * @throws MirrorError `target.unknown`, `target.mirrored` for one that would be mirrored again, `directory.*`, `disk.*`, `state.unavailable`
 */
export function listForgettable(
  { settings, emit }: TaskWork,
  { targets }: RequestOf<'forgettable'>,
): Promise<readonly Forgettable[]> {
  const ofDirectory = settings.ofDirectory();
  return withReader(ofDirectory, emit, async (reader) => {
    const { layout, shard } = reader.store;
    const known = await knownTargets(ofDirectory, reader);
    // One that is unknown may be another instance's.
    const paths = findTargets(targets, layout.mirror, known.keys(), shard === null ? undefined : () => []);
    return paths.flatMap((path) => {
      const entry = known.get(path);
      if (entry !== null) return entry ?? [];
      const message = `${path} cannot be forgotten: the settings select it and the service has it, so that the next pass would mirror it again.`;
      throw new MirrorError('target.mirrored', message, {
        hint: `Exclude it first, with repositories.exclude or branches.exclude: \`${ownCommand('help settings')}\` describes them.`,
      });
    });
  });
}

/** Every target with a manifest, a record or an entry in the inventory, by path; null for one that the next pass would mirror again. */
async function knownTargets(
  settings: SettingsFor<'directory'>,
  reader: MirrorReader,
): Promise<ReadonlyMap<string, Forgettable | null>> {
  const { store } = reader;
  const { published, records, statuses } = await readTargets(settings, reader);
  const { selection } = statusPolicyOf(settings);
  const present = new Set(published.filter(({ treePresent }) => treePresent).map(({ path }) => path));
  const entries = new Map<string, Forgettable | null>();
  const { targets } = await readTargetList(store.layout);
  for (const { path, repositoryId, branch } of targets) {
    if (!owns(store.shard, repositoryId)) continue;
    // If only the manifest cannot be read, the tree is still there.
    const facts = { treePresent: isTreeThere(store.layout, path), files: 0, sizeBytes: 0 };
    entries.set(path, { target: path, id: { repositoryId, branch }, because: 'lost', ...facts });
  }
  // The tree at a path, which comes first, counts more than a record of what would belong there.
  for (const status of statuses.toReversed()) {
    const { target, repositoryId, repository, branch, state, files, sizeBytes, restoredAtMs } = status;
    const id = { repositoryId, branch };
    const { missingPasses = 0, failure = null } = records.get(targetKey(id)) ?? {};
    const isGone = missingPasses > 0 || restoredAtMs !== null || failure?.code === 'contents.not_found';
    const isDeselected = state === 'unselected' || !selection.selects(repository, branch);
    const because = isDeselected ? 'deselected' : isGone ? 'gone' : null;
    const tree = { treePresent: present.has(target), files, sizeBytes };
    entries.set(target, because && { target, id, because, ...tree });
  }
  return entries;
}

function isTreeThere(layout: DirectoryLayout, path: string): boolean {
  return statsNow(treePath(layout, path)) !== null;
}

/** Moves the trees to the history, and removes all other traces of the targets. */
async function forgetNow(
  { emit, store, state, isPulling }: IdleMirror,
  entries: readonly Forgettable[],
): Promise<void> {
  const keys = new Set(entries.map(({ id }) => targetKey(id)));
  const pulled = entries.find(({ target }) => isPulling(target));
  if (pulled !== undefined) {
    const message = `${pulled.target} cannot be forgotten now: it is being pulled.`;
    throw new MirrorError('target.mirrored', message, { hint: 'Try again when it has ended.' });
  }
  for (const { target, id } of entries) {
    const manifest = await publishedManifest(store.layout, target);
    const isOwn = manifest === null ? isTreeThere(store.layout, target) : treeKey(manifest) === targetKey(id);
    if (!isOwn) continue;
    await retireTree(store, target);
    emit({ name: 'target.retired', target, reason: 'forgotten' });
  }
  const { lost } = await checkTargetList(store);
  await saveTargets(
    store,
    lost.filter((target) => !keys.has(targetKey(target))),
  );
  const records = await state.records();
  await state.forgetRecords([...keys].flatMap((key) => records.get(key) ?? []));
}
