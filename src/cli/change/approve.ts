import { publishedManifest } from '../../mirror/store/inventory.ts';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import type { HeldDeletion } from '../../mirror/plan/guard.ts';
import { type FileDifference, removedAt } from '../../app/tasks/file-differences.ts';
import { describeDifferences } from '../read/differences.ts';
import { counted } from '../../lib/text/humanize.ts';
import { heldSentence } from '../../app/messages.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { Held, TargetRecord } from '../../mirror/plan/record.ts';
import { targetKey, branchSegment } from '../../mirror/upstream/listing.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { StoredPass } from '../../mirror/state/state.ts';
import { WHOLE_DIRECTORY } from '../../mirror/plan/selection.ts';
import { writeApproval } from '../../mirror/store/approvals.ts';
import { refuseMissing } from '../../app/open-reader.ts';
import { loudness } from '../frame/loudness.ts';
import { type Outcome, tell, tellEvent } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { standardError } from '../../lib/process/streams.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { targetNamed } from '../../app/target-names.ts';
import { withReader } from '../../app/open-reader.ts';

/** `approve` */
export async function runApprove(command: Command): Promise<Outcome> {
  const { all, yes }: { all?: true; yes?: true } = command.opts();
  if (command.args.length === 0 && all !== true) {
    throw new MirrorError('usage.invalid', 'approve needs a target, or --all.', {
      hint: `\`${ownCommand('status')}\` lists what is held.`,
    });
  }
  const { settings } = settingsOf(command, ['directory']);
  const approved = await approve(settings, all === true ? null : command.args, (held) =>
    yes === true ? shown(describeHeld(held)) : confirmed(describeHeld(held), questionAbout(held)),
  );
  if (approved !== null) return { data: approved, text: () => describeApproved(approved) };
  return { data: [], text: () => say`Nothing was approved.`, exitCode: EXIT_CODES.incomplete };
}

/** Shows a person who gave `--yes` what is about to be done. */
export function shown(what: TerminalText): Promise<true> {
  if (loudness() !== 'quiet') tell(what);
  return Promise.resolve(true);
}

/**
 * Shows a person what is about to be done, and asks whether to go on.
 * @returns whether the answer was yes
 * @throws MirrorError `usage.invalid` where nobody can be asked
 */
export async function confirmed(what: TerminalText, question: TerminalText): Promise<boolean> {
  tell(what);
  if (!process.stdin.isTTY || !standardError.isTerminal()) {
    throw new MirrorError('usage.invalid', 'There is no terminal to ask on, so nothing was done.', {
      hint: 'Look at the list, and give --yes.',
    });
  }
  standardError.write(say`${question} [y/N] `);
  const input = createInterface({ input: process.stdin });
  try {
    // An input that ends is no yes.
    const [answer = ''] = await Promise.race([input.question('').then((line) => [line]), ended(input)]);
    return /^y(?:es)?$/i.test(answer.trim());
  } finally {
    input.close();
  }
}

function ended(input: {
  readonly once: (event: 'close', listener: () => void) => unknown;
}): Promise<string[]> {
  return new Promise((resolve) => input.once('close', () => resolve([])));
}

/** A held deletion. */
export interface Approved {
  /** As below `mirror/`; the directory itself where it may mirror another service. */
  readonly target: string;
  readonly subject: HeldDeletion['subject'] | 'service';
  /** What is held, where the record of a target does not tell. */
  readonly message?: string;
  readonly deletions: number;
  readonly of: number;
  /** How many files would go. */
  readonly fileCount: number;
  /** The first of them, sorted. */
  readonly files: readonly string[];
  /** The same ones, with what the manifest of the published tree says of them. */
  readonly differences: readonly FileDifference[];
}

/** The directory itself, where the last pass was held as it would have mirrored another service. */
function heldAsWhole(lastPass: StoredPass | null): Approved[] {
  if (lastPass?.failure?.code !== 'directory.other_service') return [];
  const { message } = lastPass.failure;
  const nothing = { deletions: 0, of: 0, fileCount: 0, files: [], differences: [] };
  return [{ target: 'the directory', subject: 'service', message, ...nothing }];
}

/**
 * Lets held deletions through, once: the next pass carries them out. Works beside a running daemon. Root goes on as the owner
 * of the directory.
 * @param asked targets as below `mirror/`; null for all that are held
 * @param confirm is shown the deletions; nothing is approved where it says no
 * @returns the approved deletions; null where nothing was approved, as the answer was no
 * @throws MirrorError `target.not_held` when nothing is held there, `disk.*`, `state.unavailable`
 */
export async function approve(
  settings: SettingsFor<'directory'>,
  asked: readonly string[] | null,
  confirm: (held: readonly Approved[]) => Promise<boolean> = () => Promise.resolve(true),
): Promise<readonly Approved[] | null> {
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  return withReader(settings, tellEvent, async ({ store, state }) => {
    const records = await state.records();
    const paths = new Map(
      (await store.inventory.read()).published.map((tree) => [
        targetKey({ repositoryId: tree.repository.id, branch: tree.branch }),
        tree.path,
      ]),
    );
    const held = new Map(
      [...records].flatMap(([key, record]): [string, TargetRecord & { held: Held }][] =>
        record.held === null ? [] : [[paths.get(key) ?? pathOf(record), { ...record, held: record.held }]],
      ),
    );
    const known = [...paths.values(), ...held.keys()];
    const names = asked?.map((name) => targetNamed(name, store.layout.mirror, known)) ?? [...held.keys()];
    const chosen = names.map((name) => ({ name, record: held.get(name) ?? notHeld(name, [...held.keys()]) }));
    const found: Approved[] = asked === null ? heldAsWhole(await state.lastPass()) : [];
    const isOther = found.length > 0;
    for (const { name, record } of chosen) {
      const { subject, deletions, of, first: files } = record.held;
      const manifest = files.length === 0 ? null : await publishedManifest(store.layout, name);
      const differences = removedAt(manifest?.files ?? [], files);
      const fileCount = subject === 'files' ? deletions : (manifest?.files.length ?? 0);
      found.push({ target: name, subject, deletions, of, fileCount, files, differences });
    }
    if (found.length > 0 && !(await confirm(found))) return null;
    if (isOther)
      await writeApproval(store.layout, { target: WHOLE_DIRECTORY, subject: 'service', digest: null });
    for (const {
      target,
      held: { subject, digest },
    } of chosen.map(({ record }) => record))
      await writeApproval(store.layout, { target, subject, digest });
    return found;
  });
}

function pathOf({ repository, target }: TargetRecord): string {
  return `${repository}/${branchSegment(target.branch)}`;
}

function notHeld(name: string, held: readonly string[]): never {
  const close = likely(name, held);
  throw new MirrorError('target.not_held', `No deletion is held at ${JSON.stringify(name)}.`, {
    hint:
      close === undefined
        ? held.length > 0
          ? `\`${ownCommand('status')}\` lists all of them.`
          : `No deletion is held anywhere. \`${ownCommand('status')}\` shows the state of every target.`
        : `The nearest one is ${close}. \`${ownCommand('status')}\` lists all of them.`,
  });
}

/** The deletions that an approval would let through, for a person. */
function describeHeld(held: readonly Approved[]): TerminalText {
  return joinLines(
    held.flatMap(({ target, subject, message, differences, fileCount, deletions, of }) => [
      subject === 'service'
        ? (message ?? target)
        : `${target}: ${heldSentence({ subject, deletions, of, digest: null })}.`,
      ...(differences.length === 0 ? [] : [describeDifferences(differences, fileCount).prefixed('  ')]),
      ...(fileCount > differences.length && subject === 'files'
        ? [say`  \`${ownCommand('diff --upstream', target)}\` lists all of them`]
        : []),
    ]),
  );
}

function questionAbout(held: readonly Approved[]): TerminalText {
  const targets = held.filter(({ subject }) => subject !== 'service').length;
  return targets === held.length
    ? say`Let ${counted(targets, 'target')} go?`
    : say`Mirror that service here${targets === 0 ? '' : `, and let ${counted(targets, 'target')} go`}?`;
}

/** The approved deletions, for a person. */
function describeApproved(approved: readonly Approved[]): TerminalText {
  if (approved.length === 0) return say`No deletion is held: there is nothing to approve.`;
  const lines = approved.map(({ target, subject, deletions, of }) =>
    subject === 'service'
      ? 'The directory may mirror this service; the trees of the one before leave as any other that are gone'
      : subject === 'files'
        ? `${target}: ${deletions} of ${counted(of, 'file')} may be deleted; the history keeps the tree as it is now`
        : subject === 'deselected'
          ? `${target}: may be left out, as the settings say; its tree stays as it is`
          : `${target}: may go to history/, as ${subject === 'moved' ? 'another instance mirrors it now' : 'it is gone from the service'}`,
  );
  return joinLines([
    ...lines,
    `It goes through with the next pass: \`${ownCommand('sync')}\`, SIGHUP to the daemon, or its schedule.`,
  ]);
}
