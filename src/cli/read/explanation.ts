import { type KnownTargets, readTargets, withReader } from '../../app/open-reader.ts';
import { nextRunsMs } from '../../app/schedule.ts';
import {
  findTarget,
  namedPath,
  type SeveralTargets,
  unknownName,
  writtenName,
} from '../../app/target-names.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { readLockHolder } from '../../lib/disk/lock.ts';
import type { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { emptyRecord, type TargetRecord } from '../../mirror/plan/record.ts';
import { type StoredPass, unlessStateFails } from '../../mirror/state/state.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { publishedManifest } from '../../mirror/store/inventory.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import { targetKey } from '../../mirror/upstream/listing.ts';
import { tellEvent } from '../frame/output.ts';

/** The facts about a target or a file in it, and the next steps. */
export interface Explanation {
  readonly target: TargetStatus;
  readonly record: TargetRecord;
  /** The named file; null for a whole target. */
  readonly file: ManifestFile | null;
  readonly path: string | null;
  /** The first files of a held deletion, sorted. */
  readonly heldFiles: readonly string[];
  /** Null if the schedule of the daemon is unknown. */
  readonly nextPassAtMs: number | null;
  /** Whether a process works in the directory; null if unknown. */
  readonly isAttended: boolean | null;
  /** Why the last pass failed as a whole; null if it did not. */
  readonly passFailure: StoredPass['failure'];
}

/** The possible places of a file that was named by the end of its path. */
interface FilePlaces {
  /** As it was named. */
  readonly file: string;
  /** In the order of the targets; `path` is within the tree. */
  readonly places: readonly { readonly target: string; readonly path: string }[];
}

/** A target that is no longer mirrored, and when it last left the mirror, in milliseconds since the epoch. */
interface Retired {
  readonly retired: { readonly target: string; readonly leftAtMs: number };
}

/** The answer of `why`. For a name of several targets, it has the state of each. */
export type Answer =
  | Explanation
  | (SeveralTargets & { readonly states: readonly Pick<TargetStatus, 'target' | 'state'>[] })
  | FilePlaces
  | Retired;

/**
 * Explains a target, or a file in one, named as below `mirror/`, by its path on disk or, for a file, by the end of its path. For a
 * repository it returns the targets, for a file in several places the places, for a retired target when it left.
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
    const found = findTarget(asked, layout.mirror, known);
    if (typeof found !== 'string') {
      const chosen = statuses.filter(({ target }) => found.targets.includes(target));
      return { ...found, states: chosen.map(({ target, state }) => ({ target, state })) };
    }
    const path = known.includes(found) ? found : filePath(asked, layout.mirror, known);
    let explained = await explain(targets, layout, path);
    const places = explained === null ? await placesOf(layout, targets.published, path) : [];
    const [only] = places;
    if (only !== undefined && places.length === 1)
      explained = await explain(targets, layout, `${only.target}/${only.path}`);
    if (explained !== null) {
      return {
        ...explained,
        nextPassAtMs: isScheduleKnown
          ? (nextRunsMs(settings.schedule, settings.timezone, 1)[0] ?? null)
          : null,
        isAttended: (await readLockHolder(layout.lockFile))?.isAlive ?? null,
        passFailure: (await unlessStateFails(reader.state.lastPass(), null))?.failure ?? null,
      };
    }
    if (places.length > 0) return { file: path, places };
    const retired = await lastRetired(layout, asked);
    if (retired !== null) return { retired };
    throw unknown(asked, known);
  });
}

/** Finds the retired target of this name, or with a file of this name, or the last one of a repository. @returns null without one */
async function lastRetired(layout: DirectoryLayout, asked: string): Promise<Retired['retired'] | null> {
  const retired = (await readHistory(layout)).filter(({ kind }) => kind === 'retired');
  const paths = retired.map((entry) => entry.path);
  const former = filePath(asked, layout.mirror, paths);
  const [last] = retired
    .filter(
      ({ path }) => `${former}/`.startsWith(`${path}/`) || path.slice(0, path.lastIndexOf('/')) === former,
    )
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
async function explain(
  { records, statuses, ids }: KnownTargets,
  layout: DirectoryLayout,
  path: string,
): Promise<Omit<Explanation, 'nextPassAtMs' | 'isAttended' | 'passFailure'> | null> {
  const target = statuses
    .filter((each) => `${path}/`.startsWith(`${each.target}/`))
    .sort((a, b) => b.target.length - a.target.length)[0];
  if (target === undefined) return null;
  const id = ids.get(target.target) ?? { repositoryId: '', branch: target.branch };
  const record = records.get(targetKey(id)) ?? emptyRecord(id);
  const inner = path === target.target ? null : path.slice(target.target.length + 1);
  const manifest = inner === null ? null : await publishedManifest(layout, target.target);
  const file = manifest?.files.find((each) => each.path === inner) ?? null;
  return { target, record, file, path: inner, heldFiles: record.held?.first ?? [] };
}

/** Finds the published files whose path is a name, or ends with a slash and the name. Reads all manifests, one at a time. */
async function placesOf(
  layout: DirectoryLayout,
  published: KnownTargets['published'],
  name: string,
): Promise<FilePlaces['places']> {
  const places: FilePlaces['places'][number][] = [];
  for (const { path: target } of name === '' ? [] : published) {
    const manifest = await publishedManifest(layout, target);
    for (const { path } of manifest?.files ?? [])
      if (`/${path}`.endsWith(`/${name}`)) places.push({ target, path });
  }
  return places;
}

function unknown(asked: string, targets: readonly string[]): MirrorError {
  const message = `No target and no file in one is named ${JSON.stringify(asked)}.`;
  const lists =
    targets.length === 0
      ? `Nothing is mirrored there yet: \`${ownCommand('sync')}\` makes a pass.`
      : `\`${ownCommand('status')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`;
  return unknownName('target.unknown', message, asked, targets, lists);
}
