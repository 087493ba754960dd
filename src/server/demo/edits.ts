/** The kinds of edit, in the order in which a branch gets them. */
export const EDIT_KINDS = ['modify', 'modify with notes', 'add', 'rename', 'delete'] as const;

/** One of {@link EDIT_KINDS}. */
export type EditKind = (typeof EDIT_KINDS)[number];

/** What an edit changes, before its content is made. */
export interface EditPlan {
  /** For people. */
  readonly summary: string;
  readonly change:
    /** New content for a workbook that is there or is new, and perhaps for a text file. */
    | { readonly kind: 'write'; readonly workbook: string; readonly notes?: string }
    | { readonly kind: 'rename'; readonly from: string; readonly to: string }
    | { readonly kind: 'remove'; readonly workbook: string };
}

/** New workbooks go here, and only from here are workbooks deleted. */
const DRAFTS = 'Drafts/';
/** With more drafts than this, one is deleted instead of added. */
const MOST_DRAFTS = 3;
const NOTES = 'Notes/last change.txt';
const REVIEWED = ' (reviewed)';

function pick(paths: readonly string[], turn: number): string | undefined {
  return paths[turn % Math.max(1, paths.length)];
}

function planAdd(workbooks: readonly string[]): EditPlan {
  const taken = (number: number): boolean =>
    workbooks.some((path) => path.startsWith(`${DRAFTS}Draft ${number}`));
  let number = 1;
  while (taken(number)) number += 1;
  const workbook = `${DRAFTS}Draft ${number}.xlsx`;
  return { summary: `added ${workbook}`, change: { kind: 'write', workbook } };
}

/** The name with the mark of a review put on or taken off again. */
function toggleReviewed(path: string): string {
  const [, stem = path, extension = ''] = /^(.*)(\.[^./]+)$/s.exec(path) ?? [];
  const other = stem.endsWith(REVIEWED) ? stem.slice(0, -REVIEWED.length) : stem + REVIEWED;
  return other + extension;
}

/**
 * Plans an edit that fits what is on the branch; an edit that would have nothing to work on becomes another one, so that
 * the data neither runs out nor grows.
 * @param turn how many edits there were; it decides which workbook is taken
 * @param workbooks paths of the workbooks on the branch
 */
export function planEdit(kind: EditKind, turn: number, workbooks: readonly string[]): EditPlan {
  const drafts = workbooks.filter((path) => path.startsWith(DRAFTS));
  const draft = pick(drafts, turn);
  const workbook = pick(workbooks, turn);
  if (draft !== undefined && (kind === 'delete' || (kind === 'add' && drafts.length >= MOST_DRAFTS))) {
    return { summary: `deleted ${draft}`, change: { kind: 'remove', workbook: draft } };
  }
  if (workbook === undefined || kind === 'add' || kind === 'delete') return planAdd(workbooks);
  if (kind === 'rename') {
    const to = toggleReviewed(workbook);
    if (!workbooks.includes(to)) {
      return { summary: `renamed ${workbook} to ${to}`, change: { kind: 'rename', from: workbook, to } };
    }
  }
  if (kind === 'modify with notes') {
    const change = { kind: 'write', workbook, notes: NOTES } as const;
    return { summary: `changed ${workbook} and ${NOTES}`, change };
  }
  return { summary: `changed ${workbook}`, change: { kind: 'write', workbook } };
}
