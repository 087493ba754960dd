import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** A version with a part after a hyphen is a pre-release (semver.org, 9). */
const PRE_RELEASE = /^\d+\.\d+\.\d+-/;

interface Locked {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
const { '': root } = packages;
if (root === undefined) throw new Error('the lock file says nothing of this package');

const namesIn = (...all: readonly (Readonly<Record<string, string>> | undefined)[]): string[] =>
  all.flatMap((each) => Object.keys(each ?? {}));

/** Where a package of a name lies for the one at `path`; undefined for an optional one that is not there. */
function find(name: string, path: string): string | undefined {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    const found = `${at === '' ? '' : `${at}/`}node_modules/${name}`;
    if (packages[found] !== undefined) return found;
    if (at === '') return undefined;
  }
}

/** Packages with all that they need, by their paths. */
function withAllBelow(names: readonly string[]): string[] {
  const found = new Set<string>();
  const visit = (name: string, from: string): void => {
    const path = find(name, from);
    if (path === undefined || found.has(path)) return;
    found.add(path);
    const { dependencies, optionalDependencies, peerDependencies } = packages[path] ?? {};
    for (const each of namesIn(dependencies, optionalDependencies, peerDependencies)) visit(each, path);
  };
  for (const name of names) visit(name, '');
  return [...found];
}

function preReleases(paths: readonly string[]): string[] {
  return paths.filter((path) => PRE_RELEASE.test(packages[path]?.version ?? ''));
}

/** The packages that the sources import, which become part of the program. */
function imported(): string[] {
  const sources = globSync('src/**/*.{ts,js}', { cwd: ROOT }).map(read).join('\n');
  return namesIn(root?.devDependencies).filter((name) =>
    new RegExp(`(?:from |import\\()'${name}['/]`).test(sources),
  );
}

describe('what a user gets', () => {
  it('is installed with released packages alone', () => {
    const { dependencies, optionalDependencies, peerDependencies } = root;
    const paths = withAllBelow(namesIn(dependencies, optionalDependencies, peerDependencies));
    expect(paths).toContain('node_modules/koffi');
    expect(preReleases(paths)).toEqual([]);
  });

  it('is made of released packages alone', () => {
    const names = imported();
    expect(names).toEqual(expect.arrayContaining(['@redis/client', 'pg', 'undici']));
    expect(preReleases(withAllBelow(names))).toEqual([]);
  });

  it('is told of released packages alone', () => {
    const told = ['src/**/*.{md,ts}', 'config/*', 'systemd/*', 'README.md', 'Dockerfile', '.github/*.md'];
    for (const path of globSync(told, { cwd: ROOT }))
      expect(read(path).match(/[\w/-]+@\d+\.\d+\.\d+-\w+/g), path).toBeNull();
  });
});
