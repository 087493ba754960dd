import { type KnownTargets, type MirrorReader, readTargets, withReader } from '../../app/open-reader.ts';
import { nextRunsMs } from '../../app/schedule.ts';
import { namedPath, targetNamed, unknownName, writtenName } from '../../app/target-names.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { readLockHolder } from '../../lib/disk/lock.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { approvalOf } from '../../mirror/plan/guard.ts';
import { parentPath } from '../../mirror/plan/paths.ts';
import { emptyRecord } from '../../mirror/plan/record.ts';
import { readApprovals } from '../../mirror/store/documents.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { targetKey } from '../../mirror/upstream/listing.ts';
import { tellEvent } from '../frame/output.ts';

/** The facts about a target or a file in it, and the next steps. */
export type Explanation = NonNullable<Awaited<ReturnType<typeof explain>>> &
  Awaited<ReturnType<typeof nextSteps>>;

/** The answer of `why`. A file that was named by the end of its path may be in several places. */
export type Answer =
  | Explanation
  | { readonly file: string; readonly places: Awaited<ReturnType<typeof placesOf>> }
  | { readonly retired: { readonly target: string; readonly leftAtMs: number } };

/**
 * Explains a target, or a file in one, named as below `mirror/`, by its path on disk or, for a file, by the end of its path. For a file
 * in several places it returns the places, for a retired target when it left.
 * @param isScheduleKnown whether the settings are those of the daemon, not only defaults
 * @throws MirrorError `target.unknown`
 */
export function why(
  settings: SettingsFor<'directory'>,
  asked: string,
  isScheduleKnown: boolean,
): Promise<Answer> {
  return withReader(settings, tellEvent, async (reader) => {
    const { layout } = reader.store;
    const targets = await readTargets(settings, reader);
    const { statuses } = targets;
    const known = statuses.map((each) => each.target);
    const found = targetNamed(asked, layout.mirror, known);
    const path = known.includes(found) ? found : filePath(asked, layout.mirror, known);
    const named = await explain(targets, layout, path);
    const places = named === null ? await placesOf(layout, targets.published, path) : [];
    const [only] = places.length === 1 ? places : [];
    const explained =
      only === undefined ? named : await explain(targets, layout, `${only.target}/${only.path}`);
    if (explained !== null) return { ...explained, ...(await nextSteps(settings, reader, isScheduleKnown)) };
    if (places.length > 0) return { file: path, places };
    const retired = await lastRetired(layout, asked);
    if (retired !== null) return { retired };
    const lists =
      known.length === 0
        ? `Nothing is mirrored there yet: \`${ownCommand('sync')}\` makes a pass.`
        : `\`${ownCommand('status --all')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`;
    const message = `No target, and no file in a target, is named ${JSON.stringify(asked)}.`;
    throw unknownName('target.unknown', message, asked, known, lists);
  });
}

/** The facts about the daemon that decide when something happens to a target. */
async function nextSteps(
  { schedule, timezone }: SettingsFor<'directory'>,
  { store, state }: MirrorReader,
  isScheduleKnown: boolean,
) {
  return {
    /** Null if the schedule of the daemon is unknown. */
    nextPassAtMs: isScheduleKnown ? (nextRunsMs(schedule, timezone, 1)[0] ?? null) : null,
    /** Whether a process works in the directory; null if unknown. */
    isAttended: (await readLockHolder(store.layout.lockFile))?.isAlive ?? null,
    /** Why the last pass failed as a whole; null if it did not. */
    passFailure: (await state.lastPass().catch(() => null))?.failure ?? null,
  };
}

/** Finds the retired target of this name, or with a file of this name, or the last one of a repository. @returns null without one */
async function lastRetired(layout: DirectoryLayout, asked: string) {
  const retired = (await readHistory(layout)).filter(({ kind }) => kind === 'retired');
  const paths = retired.map((entry) => entry.path);
  const former = filePath(asked, layout.mirror, paths);
  const [last] = retired
    .filter(({ path }) => `${former}/`.startsWith(`${path}/`) || parentPath(path) === former)
    .sort((a, b) => b.atMs - a.atMs);
  return last === undefined ? null : { target: last.path, leftAtMs: last.atMs };
}

/** The path of a target or a file that a person means, with the real name of its target if exactly one target is written so. */
function filePath(asked: string, mirror: string, targets: readonly string[]): string {
  const isBelow = (path: string, target: string): boolean => `${path}/`.startsWith(`${target}/`);
  const writtenIn = (path: string): string[] =>
    targets.filter((target) => isBelow(path.normalize('NFC'), writtenName(target)));
  const isIn = (path: string): boolean => targets.some((target) => isBelow(path, target));
  const path = namedPath(asked, mirror, (each) => isIn(each) || writtenIn(each).length > 0);
  const [only, ...others] = isIn(path) ? [] : writtenIn(path);
  if (only === undefined || others.length > 0) return path;
  return `${only}${path.normalize('NFC').slice(writtenName(only).length)}`;
}

/** Explains the target of a path below `mirror/`, and the file at the path; null if no target contains it. */
async function explain({ records, statuses }: KnownTargets, layout: DirectoryLayout, path: string) {
  const target = statuses
    .filter((each) => `${path}/`.startsWith(`${each.target}/`))
    .sort((a, b) => b.target.length - a.target.length)[0];
  if (target === undefined) return null;
  const { repositoryId, branch } = target;
  const id = { repositoryId, branch };
  const record = records.get(targetKey(id)) ?? emptyRecord(id);
  const inner = path === target.target ? null : path.slice(target.target.length + 1);
  const manifest = inner === null ? null : await publishedManifest(layout, target.target);
  const file = manifest?.files.find((each) => each.path === inner) ?? null;
  const { held } = record;
  const isApproved = held !== null && approvalOf(await readApprovals(layout), id, held) !== null;
  // For a whole target, file and path are null.
  return { target, record, file, path: inner, heldFiles: held?.first ?? [], isApproved };
}

/** Finds the published files whose path is a name, or ends with a slash and the name. Reads all manifests, one at a time. */
async function placesOf(layout: DirectoryLayout, published: KnownTargets['published'], name: string) {
  const places = [];
  for (const { path: target } of name === '' ? [] : published) {
    const manifest = await publishedManifest(layout, target);
    for (const { path } of manifest?.files ?? [])
      if (`/${path}`.endsWith(`/${name}`)) places.push({ target, path });
  }
  return places;
}
