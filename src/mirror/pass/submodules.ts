import { join } from 'node:path';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { nameFault } from '../../lib/paths/file-name.ts';
import { foldersWith, type ManifestFile, type SkippedEntry } from '../store/manifest.ts';
import type { Stage } from '../store/publish/stage.ts';

/** The file in which Git keeps the places of submodules (gitmodules(5)), at the top of a repository. */
const GITMODULES = '.gitmodules';
/** One that is greater is not read: it would take the manifest beyond all bounds. */
const MOST_BYTES = 1024 * 1024;

/**
 * The submodules of a tree, which are other repositories: an archive has an empty folder in the place of one, or nothing. So each that
 * `.gitmodules` names counts as left out, unless there is something in its place.
 * @param skipped what else was left out
 * @throws MirrorError `disk.*`
 */
export async function submodulesOf(
  stage: Stage,
  files: readonly ManifestFile[],
  skipped: readonly SkippedEntry[],
): Promise<SkippedEntry[]> {
  if (!files.some(({ path }) => path === GITMODULES)) return [];
  const isStaged = stage.staged.has(GITMODULES);
  const place = join(isStaged ? stage.tree : stage.published, GITMODULES);
  const text = await onDisk(`reading ${GITMODULES}`, () => readOwnText(place, MOST_BYTES));
  const paths = [...files, ...skipped].map(({ path }) => path);
  const taken = new Set([...paths, ...foldersWith(paths)]);
  const left = new Set(submodulePaths(text ?? '').filter((path) => !taken.has(path)));
  return [...left].map((path) => ({ path, reason: 'submodule' }));
}

const SECTION = /^\[\s*submodule(?:\s+"(?:[^"\\]|\\.)*"|\.[^\]]*)\s*\]/i;

/** The paths that the sections of submodules have (git-config(1), "Syntax"), as far as a tree can have such. */
function submodulePaths(text: string): string[] {
  const paths: string[] = [];
  let isSubmodule = false;
  for (const line of text.replaceAll(/\\\r?\n/g, '').split('\n')) {
    let rest = line.trim();
    if (rest.startsWith('[')) {
      const header = SECTION.exec(rest)?.[0];
      isSubmodule = header !== undefined;
      rest = rest.slice(header?.length ?? rest.length).trim();
    }
    const value = isSubmodule ? /^path\s*=(?<value>.*)$/i.exec(rest)?.groups?.['value'] : undefined;
    const path = unquoted(value ?? '').replace(/\/$/, '');
    if (nameFault(path) === null) paths.push(path);
  }
  return paths;
}

/** A value without its quotation marks, backslashes and comment. */
function unquoted(value: string): string {
  const parts = value.matchAll(/"((?:[^"\\]|\\.)*)"?|\\(.)|[#;].*|([^"\\#;]+)/g);
  return [...parts]
    .map(([, quoted = '', escaped = '', plain = '']) => quoted.replaceAll(/\\(.)/g, '$1') + escaped + plain)
    .join('')
    .trim();
}
