import type { Command } from 'commander';

import { heldSentence } from '../../app/messages.ts';
import { findTargets, unknownName } from '../../app/target-names.ts';
import type { HeldTarget } from '../../app/tasks/approve.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { userName } from '../../lib/process/owner.ts';
import { counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { Shown } from '../../lib/text/terminal-text.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { judged, type Lines, type Outcome, textOf, under } from '../frame/output.ts';
import { runAll, taskRunners } from '../frame/task-runners.ts';
import { confirmed } from '../frame/terminal.ts';
import { describeDifferences } from '../read/differences.ts';
import { settingsOf } from '../settings/settings-flags.ts';

/** `approve` */
export async function runApprove(command: Command): Promise<Outcome> {
  const { all, yes }: { all?: true; yes?: true } = command.opts();
  if (command.args.length === 0 && all !== true) {
    // The hint repeats the flags.
    settingsOf(command, []);
    throw new MirrorError('usage.invalid', 'approve needs a target, or --all.', {
      hint: `\`${ownCommand('status')}\` lists what is held.`,
    });
  }
  // Root becomes the owner of the directory later, and its name must be recorded.
  const approvedBy = approver();
  const lists = await runAll(await taskRunners(command, false), 'held', {});
  const found = lists.flatMap(({ runner, result }) => result.map((held) => ({ runner, held })));
  const names =
    all === true
      ? null
      : await pathsNamed(
          found.flatMap(({ held }) => held.target ?? []),
          command,
        );
  const chosen = found.filter(({ held }) => names === null || names.has(held.target));
  const held = chosen.map((each) => each.held);
  if (held.length > 0 && !(await confirmed(describeHeld(held), questionAbout(held), yes === true)))
    return judged(false, [], () => 'Nothing was approved.');
  for (const { runner, held: each } of chosen)
    await runner.run('approve', { approvals: [{ ...each.approval, approvedBy }] });
  return { data: held, text: () => describeApproved(held) };
}

/** The user who gives the command; with sudo, the user who called it. */
function approver(): string {
  const user = userName();
  const other = process.env['SUDO_USER'] ?? '';
  return user === 'root' && other !== '' ? `${other} (sudo)` : user;
}

/** The targets with held deletions that a command names. @throws MirrorError `target.not_held`, `target.unknown` */
async function pathsNamed(held: readonly string[], command: Command): Promise<ReadonlySet<string | null>> {
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const known = [...(await manifestPaths(layout)), ...held];
  const names = command.args.flatMap((asked) => {
    const targets = findTargets([asked], layout.mirror, known, (name) => notHeld(name, held));
    const chosen = targets.filter((name) => held.includes(name));
    return chosen.length > 0 ? chosen : notHeld(targets[0] ?? asked, held);
  });
  return new Set(names);
}

function notHeld(name: string, held: readonly string[]): never {
  const lists =
    held.length > 0
      ? `\`${ownCommand('status')}\` lists all of them.`
      : `No deletion is held anywhere. \`${ownCommand('status')}\` shows the state of every target.`;
  throw unknownName('target.not_held', `No deletion is held at ${JSON.stringify(name)}.`, name, held, lists);
}

/** Describes the deletions that an approval would allow. */
function describeHeld(held: readonly HeldTarget[]): Lines {
  return held.map((each) => {
    if (each.subject === 'service') return each.message;
    const { target, subject, differences, fileCount, deletions, of } = each;
    return [
      `${target}: ${heldSentence({ subject, deletions, of, digest: null })}.`,
      differences.length > 0 && describeDifferences(differences, fileCount).prefixed('  '),
      fileCount > differences.length &&
        subject === 'files' &&
        `  \`${ownCommand('diff --upstream', target)}\` lists all of them`,
    ];
  });
}

function questionAbout(held: readonly HeldTarget[]): string {
  const targets = held.filter(({ subject }) => subject !== 'service').length;
  if (targets === held.length) return `Let ${counted(targets, 'target')} go?`;
  return `Mirror that service here${targets === 0 ? '' : `, and let ${counted(targets, 'target')} go`}?`;
}

/** Names what is approved; its description was shown before. */
function describeApproved(approved: readonly HeldTarget[]): Shown {
  if (approved.length === 0) return 'No deletion is held: there is nothing to approve.';
  const names = approved.map(({ target }) => target ?? 'the other service');
  const next = `The next pass carries it out; \`${ownCommand('poll')}\` makes one now.`;
  return textOf(under('Approved:', names), next);
}
