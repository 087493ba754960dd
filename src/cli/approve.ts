import type { SettingsFor } from '../config/schema.ts';
import { MirrorError } from '../model/errors.ts';
import type { HeldDeletion } from '../model/guard.ts';
import { counted } from '../model/humanize.ts';
import { likely } from '../model/nearest.ts';
import type { TargetRecord } from '../model/record.ts';
import { encodeSegment } from '../model/safe-path.ts';
import { targetKey } from '../model/service.ts';
import { joinLines, say, type TerminalText } from '../model/terminal-text.ts';
import { writeApproval } from '../store/approvals.ts';
import { openReader, refuseMissing } from './reader.ts';
import { tellEvent } from './output.ts';
import { becomeOwnerOf } from './owner.ts';
import { namedPath } from './target-name.ts';

/** A held deletion that was let through. */
export interface Approved {
  readonly target: string;
  readonly subject: HeldDeletion['subject'];
  readonly deletions: number;
  readonly of: number;
}

/**
 * Lets held deletions through, once: the next pass carries them out. Works beside a running daemon. Root goes on as the owner
 * of the directory.
 * @param asked targets as below `mirror/`; null for all that are held
 * @throws MirrorError `target.not_held` when nothing is held there, `disk.*`, `state.unavailable`
 */
export async function approve(
  settings: SettingsFor<'directory'>,
  asked: readonly string[] | null,
): Promise<Approved[]> {
  await refuseMissing(settings.directory);
  await becomeOwnerOf(settings.directory);
  const { store, state } = await openReader(settings, tellEvent);
  try {
    const records = await state.records();
    const paths = new Map(
      (await store.published()).map((tree) => [
        targetKey({ repositoryId: tree.repository.id, branch: tree.branch }),
        tree.path,
      ]),
    );
    const held = new Map(
      [...records].flatMap(([key, record]): [string, TargetRecord][] =>
        record.held === null ? [] : [[paths.get(key) ?? pathOf(record), record]],
      ),
    );
    const names =
      asked === null ? [...held.keys()] : asked.map((name) => namedPath(name, store.layout.mirror));
    const chosen = names.map((name) => ({ name, record: held.get(name) ?? notHeld(name, [...held.keys()]) }));
    const approved: Approved[] = [];
    for (const { name, record } of chosen) {
      if (record.held === null) continue;
      const { subject, digest, deletions, of } = record.held;
      await writeApproval(store.layout, { target: record.target, subject, digest });
      approved.push({ target: name, subject, deletions, of });
    }
    return approved;
  } finally {
    await state.close();
  }
}

function pathOf({ repository, target }: TargetRecord): string {
  return `${repository}/${encodeSegment(target.branch)}`;
}

function notHeld(name: string, held: readonly string[]): never {
  const close = likely(name, held);
  throw new MirrorError('target.not_held', `No deletion is held at ${JSON.stringify(name)}.`, {
    hint:
      close === undefined
        ? held.length > 0
          ? '`status` lists all of them.'
          : 'No deletion is held anywhere. `status` says how every target stands.'
        : `The nearest one is ${close}. \`status\` lists all of them.`,
  });
}

/** What was approved, for a person. */
export function describeApproved(approved: readonly Approved[]): TerminalText {
  if (approved.length === 0) return say`No deletion is held: there is nothing to approve.`;
  const lines = approved.map(({ target, subject, deletions, of }) =>
    subject === 'files'
      ? `${target}: ${deletions} of ${counted(of, 'file')} may be deleted`
      : `${target}: may go to history/, as it is gone from the service`,
  );
  return joinLines([
    ...lines,
    'It goes through with the next pass: `sync`, SIGHUP to the daemon, or its schedule.',
  ]);
}
