import { chooseDefaultBranch } from './refs.ts';

/** The references of a repository at one moment. */
export interface References {
  /** Object id by full name, such as `refs/heads/main`. */
  readonly ids: ReadonlyMap<string, string>;
  /** Full name of the default branch; null where HEAD names none. */
  readonly head: string | null;
}

/** The changes that lead to the references of another repository. */
export interface ReferencePlan {
  /** Full names of the references whose objects may be missing here. */
  readonly wanted: readonly string[];
  /** Input of `git update-ref --stdin`: what stands in the way of new names, and has to go before them. */
  readonly clearings: readonly string[];
  /** New references, and those with another id. */
  readonly updates: readonly string[];
  /** The default branch, where it is another one. */
  readonly head: string | null;
  /** References that are gone. */
  readonly removals: readonly string[];
}

const BRANCH_PREFIX = 'refs/heads/';

/** Says whether Git takes a name for a reference (git-check-ref-format(1)): a server may send anything. */
export function isReferenceName(name: string): boolean {
  if (!name.startsWith('refs/') || name.endsWith('.')) return false;
  // eslint-disable-next-line no-control-regex
  if (/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{/.test(name)) return false;
  return name
    .split('/')
    .every((segment) => segment !== '' && !segment.startsWith('.') && !segment.endsWith('.lock'));
}

/**
 * A segment of so many bytes becomes the name of a file, with `.lock` behind it while it is written, and no file system takes
 * more than 255 bytes; a path may have 4096, of which the repository's own takes some.
 */
const MAX_SEGMENT_BYTES = 255 - '.lock'.length;
const MAX_NAME_BYTES = 3000;

/** Says whether disks can hold a reference, which Git keeps as a file. */
function isHoldable(name: string): boolean {
  const fits = (text: string, bytes: number): boolean => Buffer.byteLength(text) <= bytes;
  return fits(name, MAX_NAME_BYTES) && name.split('/').every((segment) => fits(segment, MAX_SEGMENT_BYTES));
}

/** The references of another repository. */
export interface RemoteReferences extends References {
  /** Full names of those that cannot be had here; they are none of `ids`. */
  readonly leftOut: readonly string[];
}

/**
 * Leaves out references that no disk can hold, and those that this one has refused.
 * @param refused object id by full name: what is elsewhere by now may be there under the name by now, too
 */
export function leaveOut(remote: References, refused: ReadonlyMap<string, string>): RemoteReferences {
  const isLeftOut = ([name, id]: readonly [string, string]): boolean =>
    !isHoldable(name) || refused.get(name) === id;
  const all = [...remote.ids];
  return {
    ids: new Map(all.filter((entry) => !isLeftOut(entry))),
    head: remote.head,
    leftOut: all.filter(isLeftOut).map(([name]) => name),
  };
}

/**
 * Reads the output of `git ls-remote --symref`. What tags point to (`^{}`) is left out, and so is what is no reference.
 * @param output lines of id, tab, name, and one of `ref: `, name, tab, `HEAD`
 */
export function parseRemoteReferences(output: string): References {
  const ids = new Map<string, string>();
  let head: string | null = null;
  for (const line of output.split('\n')) {
    const [value = '', name = ''] = line.split('\t');
    if (name === 'HEAD' && value.startsWith('ref: ')) head = value.slice('ref: '.length);
    else if (isReferenceName(name) && /^[0-9a-f]+$/.test(value)) ids.set(name, value);
  }
  const isBranch = head?.startsWith(BRANCH_PREFIX) === true && isReferenceName(head);
  return { ids, head: isBranch ? head : null };
}

/** Reads the output of `git for-each-ref` with the format `%(objectname) %(refname)`. */
export function parseOwnReferences(output: string): ReadonlyMap<string, string> {
  const lines = output.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))]));
}

/** The names above a name, which cannot exist beside it: Git keeps references as files in folders. */
function namesAbove(name: string): string[] {
  const segments = name.split('/');
  return segments.slice(1).map((_, index) => segments.slice(0, index + 1).join('/'));
}

function branchesOf(ids: ReadonlyMap<string, string>): Map<string, string> {
  const branches = [...ids].filter(([name]) => name.startsWith(BRANCH_PREFIX));
  return new Map(branches.map(([name, id]) => [name.slice(BRANCH_PREFIX.length), id]));
}

/** Chooses what HEAD names: the same as there, if that exists; else the same as now, if that exists; else a likely branch. */
function chooseHead(own: References, remote: References): string | null {
  const isThere = (head: string | null): boolean => head !== null && remote.ids.has(head);
  const heads = branchesOf(remote.ids);
  if (isThere(remote.head) || heads.size === 0) return remote.head;
  if (isThere(own.head)) return own.head;
  const chosen = chooseDefaultBranch({ defaultBranch: null, heads });
  return chosen === null ? null : BRANCH_PREFIX + chosen;
}

/**
 * Decides how to get from the references here to those there. Nothing goes before everything new has come, but for what stands
 * in the way of a new name; so a fetch that fails, at whatever moment, loses no branch.
 */
export function planReferences(own: References, remote: References): ReferencePlan {
  const changed = [...remote.ids].filter(([name, id]) => own.ids.get(name) !== id);
  const present = new Set(own.ids.values());
  const gone = [...own.ids.keys()].filter((name) => !remote.ids.has(name));
  const above = new Set(changed.flatMap(([name]) => namesAbove(name)));
  const names = new Set(changed.map(([name]) => name));
  const isInTheWay = (name: string): boolean =>
    above.has(name) || namesAbove(name).some((parent) => names.has(parent));
  const head = chooseHead(own, remote);
  return {
    wanted: changed.filter(([, id]) => !present.has(id)).map(([name]) => name),
    clearings: gone.filter(isInTheWay).map((name) => `delete ${name}`),
    updates: changed.map(([name, id]) => `update ${name} ${id}`),
    head: head === own.head ? null : head,
    removals: gone.filter((name) => !isInTheWay(name)).map((name) => `delete ${name}`),
  };
}

/** Whether there is nothing to do. */
export function isInStep({ updates, clearings, removals, head }: ReferencePlan): boolean {
  return updates.length + clearings.length + removals.length === 0 && head === null;
}
