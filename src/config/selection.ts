import picomatch from 'picomatch';

import type { ConfiguredBranch, Selection, SelectionPattern } from '../mirror/plan/selection.ts';
import { serviceBranch } from '../mirror/upstream/listing.ts';
import type { Settings } from './schema.ts';

/** Tells whether a name matches. */
export type Matches = (name: string) => boolean;

const EVERYTHING = '**';

const OPTIONS: picomatch.PicomatchOptions = { dot: true, nonegate: true };

/** Matches names against some patterns: the one language of all patterns in settings and on the command line. */
export function anyOf(patterns: readonly string[]): Matches {
  // Patterns never match the parts `.` and `..` of a name, and everything means everything.
  if (patterns.includes(EVERYTHING)) return () => true;
  const matches = picomatch([...patterns], OPTIONS);
  return (name) => matches(name);
}

/** Whether a text matches more than the one name that it spells. */
export function isPattern(text: string): boolean {
  return picomatch.scan(text).isGlob;
}

/** Makes the operator's choice of targets from the settings `repositories`, `branches` and `targets`. */
export function createSelection({
  repositories,
  branches,
  targets,
}: Pick<Settings, 'repositories' | 'branches' | 'targets'>): Selection {
  const [takesRepository, takesBranch] = [filterOf(repositories), filterOf(branches)];
  const configured = targets.map(parseTarget);
  return {
    selects: (fullName, branch) => takesRepository(fullName) && takesBranch(serviceBranch(branch)),
    configuredBranches: (fullName) => {
      const found = new Map<string, ConfiguredBranch>();
      for (const { matches, required, branch } of configured) {
        if (!matches(fullName)) continue;
        found.set(branch, { branch, required: required || found.get(branch)?.required === true });
      }
      return [...found.values()];
    },
    patterns: [
      ...patternsOf('repositories', 'repository', repositories),
      ...patternsOf('branches', 'branch', branches),
      ...configured.map(({ text, name, matches }): SelectionPattern => {
        return { setting: 'targets', pattern: text, name, of: 'repository', matches };
      }),
    ],
  };
}

interface Patterns {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

function patternsOf(section: string, of: SelectionPattern['of'], patterns: Patterns): SelectionPattern[] {
  return (['include', 'exclude'] as const).flatMap((key) =>
    patterns[key]
      .filter((pattern) => pattern !== EVERYTHING)
      .map((pattern) => {
        return { setting: `${section}.${key}`, pattern, name: pattern, of, matches: anyOf([pattern]) };
      }),
  );
}

function filterOf({ include, exclude }: Patterns): Matches {
  const included = anyOf(include);
  const excluded = exclude.length === 0 ? () => false : anyOf(exclude);
  return (name) => included(name) && !excluded(name);
}

function parseTarget(text: string) {
  const slash = text.lastIndexOf('/');
  const name = text.slice(0, slash);
  const branch = decodeURIComponent(text.slice(slash + 1));
  return { text, name, matches: anyOf([name]), branch, required: !isPattern(name) };
}
