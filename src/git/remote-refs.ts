/** The references of a repository at one moment. */
export interface References {
  /** Object id by full name, such as `refs/heads/main`. */
  readonly ids: ReadonlyMap<string, string>;
  /** Full name of the default branch; null where HEAD names none. */
  readonly head: string | null;
}

/** What has to be done to have the references of another repository. */
export interface ReferencePlan {
  /** Full names of the references whose objects may be missing here. */
  readonly wanted: readonly string[];
  /** Input of `git update-ref --stdin`: what stands in the way of new names, and has to go before them. */
  readonly clearings: readonly string[];
  /** What is new or has another id. */
  readonly updates: readonly string[];
  /** The default branch, where it is another one. */
  readonly head: string | null;
  /** What is gone. */
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
  return {
    wanted: changed.filter(([, id]) => !present.has(id)).map(([name]) => name),
    clearings: gone.filter(isInTheWay).map((name) => `delete ${name}`),
    updates: changed.map(([name, id]) => `update ${name} ${id}`),
    head: remote.head === null || remote.head === own.head ? null : remote.head,
    removals: gone.filter((name) => !isInTheWay(name)).map((name) => `delete ${name}`),
  };
}

/** Whether there is nothing to do. */
export function isInStep({ updates, clearings, removals, head }: ReferencePlan): boolean {
  return updates.length + clearings.length + removals.length === 0 && head === null;
}
