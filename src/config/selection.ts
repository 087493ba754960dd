import type { ConfiguredBranch, Selection, SelectionPattern } from '../mirror/plan/selection.ts';
import { serviceBranch } from '../mirror/upstream/listing.ts';
import { anyOf, isEverything, isPattern, type Matches } from './patterns.ts';
import type { Settings } from './schema.ts';

/** Makes the operator's choice of targets from the settings `repositories`, `branches` and `targets`. */
export function createSelection(
  settings: Pick<Settings, 'repositories' | 'branches' | 'targets'>,
): Selection {
  const repositories = filterOf(settings.repositories);
  const branches = filterOf(settings.branches);
  const configured = settings.targets.map(parseTarget);
  return {
    selects: (fullName, branch) => repositories(fullName) && branches(serviceBranch(branch)),
    configuredBranches: (fullName) => {
      const found = new Map<string, ConfiguredBranch>();
      for (const { matches, required, branch } of configured) {
        if (!matches(fullName)) continue;
        found.set(branch, { branch, required: required || found.get(branch)?.required === true });
      }
      return [...found.values()];
    },
    patterns: [
      ...patternsOf('repositories', 'repository', settings.repositories),
      ...patternsOf('branches', 'branch', settings.branches),
      ...settings.targets.map((text, index): SelectionPattern => {
        const matches = configured[index]?.matches ?? (() => false);
        const name = text.slice(0, text.lastIndexOf('/'));
        return { setting: 'targets', pattern: text, name, of: 'repository', matches };
      }),
    ],
  };
}

function patternsOf(
  section: 'repositories' | 'branches',
  of: SelectionPattern['of'],
  { include, exclude }: Patterns,
): SelectionPattern[] {
  return Object.entries({ include, exclude }).flatMap(([list, patterns]) =>
    patterns
      .filter((pattern) => !isEverything(pattern))
      .map((pattern) => ({
        setting: `${section}.${list}`,
        pattern,
        name: pattern,
        of,
        matches: filterOf({ include: [pattern], exclude: [] }),
      })),
  );
}

interface Patterns {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

function filterOf({ include, exclude }: Patterns): Matches {
  const included = anyOf(include);
  const excluded = exclude.length === 0 ? () => false : anyOf(exclude);
  return (name) => included(name) && !excluded(name);
}

function parseTarget(target: string): {
  matches: Matches;
  branch: string;
  required: boolean;
} {
  const slash = target.lastIndexOf('/');
  const pattern = target.slice(0, slash);
  return {
    matches: anyOf([pattern]),
    branch: decodeURIComponent(target.slice(slash + 1)),
    required: !isPattern(pattern),
  };
}
