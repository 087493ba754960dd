import { publishedManifest } from '../../mirror/store/inventory.ts';
import { retireTree } from '../../mirror/store/publish/publish.ts';
import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { openMirrorStore } from '../../app/open-mirror.ts';
import { type MirrorReader, openStateOf, refuseMissing, statusPolicyOf } from '../../app/open-reader.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { owns } from '../../mirror/plan/selection.ts';
import type { Published } from '../../mirror/plan/record.ts';
import { branchSegment, type TargetId, targetKey } from '../../mirror/upstream/listing.ts';
import { writeApproval } from '../../mirror/store/approvals.ts';
import { checkTargetList, readTargetList, saveTargets } from '../../mirror/store/target-list.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { confirmed, shown } from './approve.ts';
import { type Outcome, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { targetNamed } from '../../app/target-names.ts';
import { readTargets, withReader } from '../../app/open-reader.ts';

/** `forget` */
export async function runForget(command: Command): Promise<Outcome> {
  const { yes }: { yes?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const forgotten = await forget(settings, command.args, (targets) =>
    yes === true
      ? shown(joinLines(targets.map(describe)))
      : confirmed(joinLines(targets.map(describe)), say`Forget ${counted(targets.length, 'target')}?`),
  );
  if (forgotten !== null) return { data: forgotten, text: () => describeForgotten(forgotten) };
  return { data: null, text: () => say`Nothing was forgotten.`, exitCode: EXIT_CODES.incomplete };
}

/** A target that may be forgotten. */
export interface Forgettable {
  readonly target: string;
  /** Why it is not mirrored again: the settings leave it out, the service has it no longer, or nothing tells of it but the inventory. */
  readonly because: 'deselected' | 'gone' | 'lost';
  /** False where somebody removed its tree by hand. */
  readonly treePresent: boolean;
  readonly files: number;
  readonly sizeBytes: number;
}

/** Targets that were forgotten. */
export interface Forgotten {
  readonly targets: readonly Forgettable[];
  /** False where a process works in the directory: its next pass carries it out. */
  readonly isDone: boolean;
}

/**
 * Has targets leave the mirror that would not be mirrored again: at once or, beside a process that works there, with its next pass.
 * Root goes on as the owner of the directory.
 * @param asked targets as below `mirror/`
 * @param confirm is shown the targets; nothing is changed where it says no
 * @returns null where the answer was no
 * @throws MirrorError `target.unknown`, `target.mirrored` for one that would be mirrored again, `directory.*`, `disk.*`, `state.unavailable`
 */
export async function forget(
  settings: SettingsFor<'directory'>,
  asked: readonly string[],
  confirm: (targets: readonly Forgettable[]) => Promise<boolean>,
): Promise<Forgotten | null> {
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  const chosen = await withReader(settings, tellEvent, async (reader) => {
    const known = await knownTargets(settings, reader);
    const paths = new Set(asked.map((name) => targetNamed(name, reader.store.layout.mirror, known.keys())));
    return { layout: reader.store.layout, entries: [...paths].map((path) => refuseMirrored(path, known)) };
  });
  const targets = chosen.entries.map(({ id: _id, ...target }) => target);
  if (!(await confirm(targets))) return null;
  const store = await openMirrorStore(settings).catch((error: unknown) => {
    if (error instanceof MirrorError && error.code === 'directory.locked') return null;
    throw error;
  });
  if (store === null) {
    for (const { id } of chosen.entries)
      await writeApproval(chosen.layout, { target: id, subject: 'forgotten', digest: null });
    return { targets, isDone: false };
  }
  try {
    await forgetNow(settings, store, chosen.entries);
  } finally {
    await store.lock.release();
  }
  return { targets, isDone: true };
}

interface Entry extends Omit<Forgettable, 'because'> {
  readonly id: TargetId;
  /** Null for a target that the next pass would mirror again. */
  readonly because: Forgettable['because'] | null;
}

/** Every target that something tells of: a manifest, a record, or the inventory alone. By path. */
async function knownTargets(
  settings: SettingsFor<'directory'>,
  reader: MirrorReader,
): Promise<ReadonlyMap<string, Entry>> {
  const { store } = reader;
  const { published, records, statuses } = await readTargets(settings, reader);
  const { selection } = statusPolicyOf(settings);
  const trees = new Map(published.map((tree) => [tree.path, tree]));
  const unpublished = new Map(
    [...records.values()].map(({ repository, target }) => [
      `${repository}/${branchSegment(target.branch)}`,
      target,
    ]),
  );
  const entries = new Map<string, Entry>();
  const { targets } = await readTargetList(store.layout);
  for (const { path, repositoryId, branch } of targets) {
    if (!owns(store.shard, repositoryId)) continue;
    const none = { treePresent: false, files: 0, sizeBytes: 0 };
    entries.set(path, { target: path, id: { repositoryId, branch }, because: 'lost', ...none });
  }
  for (const status of statuses) {
    const { target, state, files, sizeBytes, restoredAtMs } = status;
    const tree = trees.get(target);
    const id = tree === undefined ? unpublished.get(target) : idOf(tree);
    if (id === undefined) continue;
    const isGone = (records.get(targetKey(id))?.missingPasses ?? 0) > 0 || restoredAtMs !== null;
    const isDeselected = state === 'unselected' || !selection.selects(status.repository, status.branch);
    const because = isDeselected ? 'deselected' : isGone ? 'gone' : null;
    entries.set(target, { target, id, because, treePresent: tree?.treePresent === true, files, sizeBytes });
  }
  return entries;
}

function idOf({ repository, branch }: Pick<Published, 'repository' | 'branch'>): TargetId {
  return { repositoryId: repository.id, branch };
}

/** @throws MirrorError `target.unknown`, `target.mirrored` */
function refuseMirrored(
  path: string,
  known: ReadonlyMap<string, Entry>,
): Forgettable & { readonly id: TargetId } {
  const entry = known.get(path);
  if (entry === undefined) {
    const close = likely(path, [...known.keys()]);
    throw new MirrorError('target.unknown', `No target is named ${JSON.stringify(path)}.`, {
      hint: `${close === undefined ? '' : `The nearest is ${close}. `}\`${ownCommand('status')}\` lists all targets.`,
    });
  }
  const { because } = entry;
  if (because !== null) return { ...entry, because };
  throw new MirrorError(
    'target.mirrored',
    `${path} cannot be forgotten: the settings select it and the service has it, so that the next pass would mirror it again.`,
    {
      hint: `Leave it out first, with repositories.exclude or branches.exclude: \`${ownCommand('help settings')}\` describes them.`,
    },
  );
}

/** Moves the trees to the history, and removes everything else that tells of the targets. */
async function forgetNow(
  settings: SettingsFor<'directory'>,
  store: MirrorStore,
  entries: readonly (Forgettable & { readonly id: TargetId })[],
): Promise<void> {
  const keys = new Set(entries.map(({ id }) => targetKey(id)));
  for (const { target, id } of entries) {
    const manifest = await publishedManifest(store.layout, target);
    if (manifest !== null && targetKey(idOf(manifest)) === targetKey(id)) await retireTree(store, target);
  }
  const { lost } = await checkTargetList(store);
  await saveTargets(
    store,
    lost.filter((target) => !keys.has(targetKey(target))),
  );
  const state = await openStateOf(settings, store, false, tellEvent);
  try {
    const records = await state.records();
    await state.forgetRecords([...keys].flatMap((key) => records.get(key) ?? []));
  } finally {
    await state.close();
  }
}

const REASONS: Readonly<Record<Forgettable['because'], string>> = {
  deselected: 'this instance no longer mirrors it, as the settings say',
  gone: 'the service no longer has it',
  lost: 'its tree and its manifest are gone, and only the inventory names it',
};

function describe({ target, because, treePresent, files, sizeBytes }: Forgettable): string {
  const amount =
    because === 'lost'
      ? ''
      : treePresent
        ? `; ${counted(files, 'file')}, ${roughSize(sizeBytes)}`
        : '; its tree was removed';
  return `${target}: ${REASONS[because]}${amount}`;
}

function describeForgotten({ targets, isDone }: Forgotten): TerminalText {
  if (!isDone) {
    return joinLines([
      ...targets.map(({ target }) => `${target}: will leave the mirror`),
      `A process works in the directory: its next pass carries it out (\`${ownCommand('poll --wait')}\` makes one now).`,
    ]);
  }
  return joinLines(
    targets.map(({ target, treePresent }) =>
      treePresent
        ? `${target}: forgotten; its tree is in history/ (${ownCommand('history restore', target)} brings it back)`
        : `${target}: forgotten; there was no tree to keep`,
    ),
  );
}
