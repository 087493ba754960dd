import type { DriftSummary } from '../mirror/store/verify/drift.ts';
import type { HeldDeletion } from '../mirror/plan/guard.ts';
import { describeAmount } from '../lib/text/amount.ts';
import type { PullProgress } from '../mirror/pass/progress.ts';
import { counted } from '../lib/text/humanize.ts';
import type { UnmatchedPattern } from '../mirror/plan/selection.ts';

/** Why a deletion is held, as a clause about its target. */
export function heldSentence({ subject, deletions, of }: HeldDeletion): string {
  switch (subject) {
    case 'target':
      return `it is one of ${deletions} of ${counted(of, 'target')} that are gone from the service at once`;
    case 'restored':
      return 'it is gone from the service, and was restored from the history';
    case 'files':
      return `the service's new state would delete ${deletions} of its ${counted(of, 'file')}`;
    case 'moved':
      return 'another instance mirrors it now; the copy here stays until it is approved to go';
    case 'deselected':
      return `the settings no longer select it, and ${deletions} of ${counted(of, 'target')} were deselected at once; it is mirrored as before`;
  }
}

/** How many of the files that would go are named in a sentence. */
const FILES_NAMED = 3;

/** The first of the files that would go, as a sentence with a space before it; nothing where none is known. */
export function heldFilesSentence({ first }: { readonly first: readonly string[] }): string {
  if (first.length === 0) return '';
  const rest = first.length > FILES_NAMED ? ', …' : '';
  return ` Files that would go: ${first.slice(0, FILES_NAMED).join(', ')}${rest}.`;
}

/** A clause that says that a pattern of the settings selects nothing. */
export function unmatchedSentence({ setting, pattern, nearest }: UnmatchedPattern): string {
  const meant = nearest === null ? '' : `; the nearest name is ${JSON.stringify(nearest)}`;
  return `${setting}: ${JSON.stringify(pattern)} matches nothing that the service lists${meant}`;
}

/** How a tree differs from its manifest, as a clause. */
export function driftSentence({ added, missing, modified, first }: DriftSummary): string {
  const counts = [
    ...(modified > 0 ? [`${modified} modified`] : []),
    ...(missing > 0 ? [`${missing} missing`] : []),
    ...(added > 0 ? [`${added} added`] : []),
  ];
  return `${counts.join(', ')}, the first is ${JSON.stringify(first)}`;
}

/** The phase and progress of a pull, as a clause without its target. */
export function describePhase(pull: PullProgress): string {
  return pull.doneBytes === 0 && pull.totalBytes === null
    ? pull.phase
    : `${pull.phase} ${describeAmount(pull)}`;
}
