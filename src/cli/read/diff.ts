import type { Command } from 'commander';

import { countedChanges } from '../../app/messages.ts';
import { refuseMissing } from '../../app/open-reader.ts';
import {
  type ComparedState,
  type DiffReport,
  readTarget,
  refuseUnknown,
  reportOn,
  type TargetOnDisk,
} from '../../app/tasks/diff-report.ts';
import { formatRetention } from '../../config/plan-settings.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, exitCodeOf, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { endUnwrittenWith } from '../../lib/process/streams.ts';
import { counted, roughSize, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { treeKey } from '../../mirror/plan/record.ts';
import { manifestOfEntry } from '../../mirror/store/history/history.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { judged, type Outcome, textOf } from '../frame/output.ts';
import { runOnce } from '../frame/task-runners.ts';
import { parseTime } from '../frame/times.ts';
import { lookUp, pathOf } from '../history/kept-files.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { describeDifferences } from './differences.ts';

/** `diff` */
export async function runDiff(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const { at, upstream }: { at?: string; upstream?: true } = command.opts();
  const atMs = at === undefined ? null : parseTime('--at', at, Date.now());
  endUnwrittenWith(EXIT_CODES.usage);
  try {
    const { settings } = settingsOf(command, ['directory']);
    const report =
      upstream === true
        ? // The target may belong to any instance.
          await runOnce(command, 'diff', { target: await pathOf(layoutOf(settings.directory), asked) })
        : await diff(settings, asked, atMs);
    return judged(report.differences.length === 0, report, () => describeReport(report));
  } catch (error) {
    // A program that asks whether files differ must not take an error for an answer: diff(1) also exits with 2.
    if (exitCodeOf(error) !== EXIT_CODES.incomplete) throw error;
    return { failure: toMirrorError(error), exitCode: EXIT_CODES.usage };
  }
}

/**
 * Compares the published state of a target with the previous one, or with its state at a time. Reads only manifests, and takes no lock.
 * @param asked as below `mirror/`, or its path on disk
 * @param atMs milliseconds since the epoch; null for the state before
 * @throws MirrorError `target.unknown`, `history.*`, `directory.unusable`, `disk.*`
 */
export async function diff(
  settings: SettingsFor<'directory'>,
  asked: string,
  atMs: number | null,
): Promise<DiffReport> {
  await refuseMissing(settings.directory);
  const layout = layoutOf(settings.directory);
  const target = await readTarget(layout, await pathOf(layout, asked));
  await refuseUnknown(layout, asked, target);
  const before =
    atMs === null
      ? await stateBefore(target, settings)
      : (await lookUp(layout, { target: target.path, atMs })).state;
  return reportOn(target.path, before, target.published, 'manifests');
}

/**
 * The state before the published one, or the last state of a target that is no longer mirrored.
 * @throws MirrorError `history.not_found`, `history.damaged`, `disk.*`
 */
async function stateBefore(
  { path, published, kept }: TargetOnDisk,
  { history: { replaced } }: Pick<SettingsFor<never>, 'history'>,
): Promise<TargetOnDisk['published']> {
  for (const entry of kept.toReversed()) {
    const manifest = await manifestOfEntry(entry);
    // A state published during the two readings is in both places, and another repository may have had this name before.
    const isOther = published !== null && treeKey(manifest) !== treeKey(published.manifest);
    if (!isOther && manifest.publishedAtMs !== published?.manifest.publishedAtMs)
      return { manifest, left: entry };
  }
  const others = `\`${ownCommand('diff --upstream', path)}\` compares it with what the service has now.`;
  throw new MirrorError('history.not_found', `The history keeps no state of ${path} before this one.`, {
    hint:
      replaced.kind === 'off'
        ? `history.replaced is off in these settings: set it to 10 or 30d to keep replaced states from now on. ${others}`
        : `In these settings history.replaced keeps ${formatRetention(replaced)}: nothing of it was replaced since, or it is pruned. ${others}`,
  });
}

const LISTED =
  'The lists show the published versions, so nothing was downloaded: only a full check notices changes of files that they do not name.';

/** Describes a comparison to a person. */
function describeReport({ target, by, before, after, counts, differences }: DiffReport): TerminalText {
  return textOf(
    target,
    `  before: ${describeState(before, 'it is not mirrored')}`,
    `  after:  ${describeState(after, by === 'manifests' ? 'it is no longer mirrored' : 'the service does not have it')}`,
    after.place === 'nothing' &&
      before.kind === 'retired' &&
      `  what is kept of it: ${ownCommand('history list', target)}`,
    '',
    by === 'lists' && after.place === 'service' && LISTED,
    differences.length === 0
      ? 'No file differs.'
      : [
          describeDifferences(differences),
          '',
          `${counted(differences.length, 'file differs', 'files differ')}: ${countedChanges(counts)}.`,
        ],
  );
}

function describeState(
  { place, changedAtMs, leftAtMs, files, sizeBytes }: ComparedState,
  nothing: string,
): string {
  const changed = changedAtMs === null ? '' : `, last changed ${utcTime(changedAtMs)}`;
  const amount = `${counted(files, 'file')}, ${roughSize(sizeBytes)}`;
  switch (place) {
    case 'mirror':
      return `as it is published${changed}; ${amount}`;
    case 'history':
      return `as it left the mirror at ${new Date(leftAtMs ?? 0).toISOString()}${changed}; ${amount}`;
    case 'service':
      return `as the service has it now; ${amount}`;
    case 'nothing':
      return `nothing: ${nothing}`;
  }
}
