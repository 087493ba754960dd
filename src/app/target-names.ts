import { realpathSync } from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';

import { anyOf, isPattern } from '../config/selection.ts';
import { unlessMissingNow } from '../lib/errors/disk-errors.ts';
import { type ErrorCode, MirrorError } from '../lib/errors/errors.ts';
import { counted } from '../lib/text/humanize.ts';
import { likely } from '../lib/text/nearest.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { parentPath } from '../mirror/plan/paths.ts';

/**
 * The path below `mirror/` that a person means: a name, perhaps after `mirror/` or `history/`, or a path on disk. A name comes first:
 * the folder of the shell does not change its meaning.
 * @param mirror the folder `mirror/`
 * @param isMeant whether something known has a path
 */
export function namedPath(asked: string, mirror: string, isMeant: (path: string) => boolean): string {
  const given = asked.replace(/\/+$/, '');
  // A repository may be named mirror, too.
  const name = isMeant(given) ? given : given.replace(/^(?:\.\/)?(?:mirror|history)\//, '');
  if (!isAbsolute(asked) && isMeant(name)) return name;
  const onDisk = resolve(asked);
  // The working folder has no links, even if the setting `directory` has.
  const roots = [mirror, unlessMissingNow(() => realpathSync(mirror)) ?? mirror];
  const root = roots.find((folder) => onDisk.startsWith(`${folder}/`));
  if (root === undefined) return name;
  const path = relative(root, onDisk);
  return isAbsolute(asked) || isMeant(path) ? path : name;
}

/** The path of a target in its readable form: `Accounting/feature/q3` for `Accounting/feature%2Fq3`. */
export function writtenName(path: string): string {
  const text = path.includes('%') ? path.split('/').map(decoded).join('/') : path;
  return text.normalize('NFC');
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Some names cannot be decoded, for example shortened ones.
    return segment;
  }
}

/** The targets with a name, or, if there are none, the branches of the repository with that name. */
function targetsOf(path: string, paths: readonly string[]): readonly string[] {
  if (paths.includes(path)) return [path];
  const name = path.normalize('NFC');
  const same = paths.filter((each) => writtenName(each) === name);
  if (same.length > 0) return same;
  return paths.filter((each) => {
    const repository = parentPath(each);
    return repository === path || writtenName(repository) === name;
  });
}

/** The targets that a pattern matches, by their path or written name; none for a name. */
function matchesOf(path: string, paths: readonly string[]): readonly string[] {
  if (!isPattern(path)) return [];
  const fits = anyOf([path.normalize('NFC')]);
  return paths.filter((each) => fits(each) || fits(writtenName(each)));
}

/** As {@link namedPath}, for a name or pattern of targets. */
export function targetPath(asked: string, mirror: string, paths: readonly string[]): string {
  return namedPath(asked, mirror, (path) => [targetsOf, matchesOf].some((of) => of(path, paths).length > 0));
}

/** Finds the targets that a name means. `path` is the path of the first target, or the given path if the name means no target. */
function findTarget(asked: string, mirror: string, known: Iterable<string>) {
  const paths = [...new Set(known)].sort();
  const path = targetPath(asked, mirror, paths);
  const targets = targetsOf(path, paths);
  const [first = path] = targets;
  const isRepository = first !== path && writtenName(first) !== path.normalize('NFC');
  return { path: first, targets, isRepository, isOne: targets.length < 2 && !isRepository };
}

/**
 * The one target that a person means, by its path, by its path on disk, or by its readable form; the path itself comes first. Used by
 * every command with a target.
 * @param known paths of targets, below `mirror/`
 * @returns the path; the given one if there is no such target
 * @throws MirrorError `target.unknown` if the name means several; the hint lists them
 */
export function targetNamed(asked: string, mirror: string, known: Iterable<string>): string {
  const { path, targets, isRepository, isOne } = findTarget(asked, mirror, known);
  if (isOne) return path;
  const which = isRepository ? 'is a repository with' : 'may be any of';
  const message = `${JSON.stringify(asked)} ${which} ${counted(targets.length, 'target')}.`;
  throw new MirrorError('target.unknown', message, {
    hint: `Name one of them: ${firstOf(targets).join(', ')}.`,
  });
}

/**
 * The targets of some names, each an exact name as in {@link targetNamed}, or a pattern as in the settings, which is compared with the
 * path and with the written name. All commands that take several targets use this.
 * @param unknown gives the targets of a name or pattern that matches no known target; if omitted, such a name is refused
 * @throws MirrorError `target.unknown`
 */
export function findTargets(
  asked: readonly string[],
  mirror: string,
  known: Iterable<string>,
  unknown: (name: string, paths: readonly string[]) => readonly string[] = noTarget,
): string[] {
  const paths = [...known];
  const isKnown = new Set(paths);
  const found = asked.flatMap((name) => {
    // Most names are exact ones, and there may be thousands.
    if (isKnown.has(name)) return [name];
    const path = targetNamed(name, mirror, paths);
    if (isKnown.has(path)) return [path];
    const fitting = matchesOf(path, paths);
    return fitting.length > 0 ? fitting : unknown(path, paths);
  });
  return [...new Set(found)];
}

/** The known targets that some names stand for, as {@link findTargets}. A name of no target, or of several, chooses nothing. */
export function chosenTargets(asked: readonly string[], mirror: string, known: readonly string[]): string[] {
  const clear = asked.filter((name) => findTarget(name, mirror, known).isOne);
  return findTargets(clear, mirror, known, () => []);
}

/** The items about the named targets, as {@link findTargets}; all items if no target is named. */
export function ofTargets<T extends { readonly target: string }>(
  items: readonly T[],
  asked: readonly string[],
  mirror: string,
): readonly T[] {
  if (asked.length === 0) return items;
  const chosen = new Set(findTargets(asked, mirror, new Set(items.map(({ target }) => target))));
  return items.filter(({ target }) => chosen.has(target));
}

/** Refuses a name or pattern that matches no target. @throws MirrorError `target.unknown` */
export function noTarget(name: string, known: Iterable<string>): never {
  const what = isPattern(name) ? 'fits the pattern' : 'is named';
  const wider = `${name}/*`;
  const isMeant = isPattern(name) && [...known].some(anyOf([wider]));
  const isFile = [...known].some((each) => name.startsWith(`${each}/`));
  const file = isFile ? `\`${ownCommand('why', name)}\` explains a file. ` : '';
  const hint = isMeant ? `Write ${JSON.stringify(wider)} for all branches. ` : file;
  const lists = `${hint}\`${ownCommand('status --all')}\` lists all targets.`;
  throw unknownName('target.unknown', `No target ${what} ${JSON.stringify(name)}.`, name, known, lists);
}

/**
 * The error for an unknown name: its hint contains the nearest known one.
 * @param advice a sentence that says how to list all of them
 */
export function unknownName(
  code: ErrorCode,
  message: string,
  asked: string,
  known: Iterable<string>,
  advice: string,
): MirrorError {
  const close = likely(asked, known);
  return new MirrorError(code, message, {
    hint: close === undefined ? advice : `The nearest is ${close}. ${advice}`,
  });
}

/** The first of many lines for a person, and the number of the others. */
export function firstOf(lines: readonly string[], most = 20): string[] {
  const more = lines.length - most;
  return [...lines.slice(0, most), ...(more > 0 ? [`and ${more} more`] : [])];
}
