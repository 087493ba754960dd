import type { Command } from 'commander';

import { refuseMissing } from '../../app/open-reader.ts';
import { firstOf, targetNamed, unknownName } from '../../app/target-names.ts';
import type { PrunedState } from '../../app/tasks/prune.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { counted, roughSize, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { type HistoryEntry, readHistory, storedBytes } from '../../mirror/store/history/history.ts';
import { readManifest } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { judged, type Lines, type Outcome, table, textOf } from '../frame/output.ts';
import { confirmed } from '../frame/terminal.ts';
import { runOnce } from '../frame/task-runners.ts';
import { parseTime } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `history list` */
export async function runHistoryList(command: Command): Promise<Outcome> {
  const [asked] = command.args;
  const kept = await listHistory(settingsOf(command, ['directory']).settings, asked ?? null);
  return { data: kept, text: () => describeHistory(kept) };
}

/**
 * Lists the trees in the history of a target, or of all of them, for `--json`. The facts from a manifest that cannot be read are null.
 * @throws MirrorError `target.unknown`, `directory.unusable`, `disk.failed`
 */
export async function listHistory(settings: SettingsFor<'directory'>, asked: string | null) {
  const layout = layoutOf(settings.directory);
  await refuseMissing(settings.directory);
  const entries = await readHistory(layout);
  const chosen = asked === null ? entries : entriesOf(entries, asked, layout.mirror);
  const kept = [];
  // One at a time: the history may be long, and a manifest large.
  for (const { path, kind, atMs, tree, manifest: file } of chosen) {
    const manifest = await readManifest(file).catch(() => null);
    kept.push({
      target: path,
      kind,
      leftAtMs: atMs,
      changedAtMs: manifest?.publishedAtMs ?? null,
      files: manifest?.files.length ?? null,
      sizeBytes: manifest?.files.reduce((sum, each) => sum + each.sizeBytes, 0) ?? null,
      storedBytes: await storedBytes({ tree }),
      folder: tree,
      approval: manifest?.approval ?? null,
    });
  }
  return kept;
}

type KeptTree = Awaited<ReturnType<typeof listHistory>>[number];

/** The entries of a named target; at least one. @throws MirrorError `target.unknown` */
export function entriesOf(entries: readonly HistoryEntry[], asked: string, mirror: string): HistoryEntry[] {
  const paths = entries.map((entry) => entry.path);
  const path = targetNamed(asked, mirror, paths);
  const found = entries.filter((entry) => entry.path === path);
  if (found.length > 0) return found;
  const message = `The history keeps nothing of ${JSON.stringify(asked)}.`;
  const lists = `\`${ownCommand('history list')}\` shows everything.`;
  throw unknownName('target.unknown', message, path, paths, lists);
}

/** Describes the history to a person. */
export function describeHistory(kept: readonly KeptTree[]): TerminalText {
  if (kept.length === 0) return say`The history is empty.`;
  const rows = kept.map((each) => [
    each.target,
    each.kind,
    new Date(each.leftAtMs).toISOString(),
    each.changedAtMs === null ? '?' : utcTime(each.changedAtMs),
    String(each.files ?? '?'),
    each.sizeBytes === null ? '?' : roughSize(each.sizeBytes),
    roughSize(each.storedBytes),
  ]);
  const headings = ['TARGET', 'KIND', 'LEFT THE MIRROR', 'LAST CHANGED', 'FILES', 'SIZE', 'STORED'];
  return textOf(table(headings, rows), sumOf(kept));
}

/** The number of states and their stored size, for a person. */
function sumOf(states: readonly Pick<KeptTree, 'storedBytes'>[]): string {
  const sum = states.reduce((bytes, state) => bytes + state.storedBytes, 0);
  return `${counted(states.length, 'state')}, ${roughSize(sum)} stored`;
}

/** `history prune` */
export async function runHistoryPrune(command: Command): Promise<Outcome> {
  const { olderThan, yes }: { olderThan: string; yes?: true } = command.opts();
  const [asked] = command.args;
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const named = asked === undefined ? [] : entriesOf(await readHistory(layout), asked, layout.mirror);
  const beforeMs = parseTime('--older-than', olderThan, Date.now());
  const wish = { target: named[0]?.path ?? null, beforeMs };
  const states = await runOnce(command, 'prunable', wish);
  const none = 'No state is older than that, except those whose files an older state needs.';
  if (states.length === 0) return { data: [], text: () => none };
  const question = `Delete ${counted(states.length, 'state')} for good?`;
  if (!(await confirmed(describe(states), question, yes === true)))
    return judged(false, [], () => 'Nothing was deleted.');
  const removed = await runOnce(command, 'prune', wish);
  const isAll = removed.length >= states.length;
  const lease = isAll ? '' : `; a lease keeps the others (\`${ownCommand('lease list')}\`)`;
  const text = `Deleted ${removed.length} of ${counted(states.length, 'state')}${lease}.`;
  return judged(isAll, removed, () => text);
}

/** The most states shown before the question. */
const STATES_SHOWN = 100;

function describe(states: readonly PrunedState[]): Lines {
  const lines = states.map(
    ({ target, kind, leftAtMs, ...each }) =>
      `${target}: ${kind} ${new Date(leftAtMs).toISOString()}, ${roughSize(each.storedBytes)}`,
  );
  return [firstOf(lines, STATES_SHOWN), sumOf(states)];
}
