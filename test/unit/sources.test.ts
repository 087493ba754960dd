import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

import { describe, expect, it } from 'vitest';

const SOURCES = join(import.meta.dirname, '../../src');
const MAP = readFileSync(join(SOURCES, 'README.md'), 'utf8');

const textOf = (file: string): string => readFileSync(join(SOURCES, file), 'utf8');

/** The files below `src`, each with the files that it imports. */
const IMPORTS: ReadonlyMap<string, readonly string[]> = new Map(
  globSync('**/*.ts', { cwd: SOURCES }).map((file) => {
    const found = textOf(file).matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
    return [file, [...found].map(([, path = '']) => normalize(join(dirname(file), path)))];
  }),
);

const wingOf = (file: string): string => file.split('/')[0] ?? '';

/** The rows of the first table below a heading, each with its cells. */
function rowsBelow(heading: string): string[][] {
  const section = MAP.split(/^## /m).find((each) => each.startsWith(heading)) ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| '));
  return rows.slice(2).map((row) => row.split('|').map((cell) => cell.trim().replaceAll(/[`*]/g, '')));
}

/** The wings of the map, each with the cell of its allowed imports. */
const WINGS = rowsBelow('The map').flatMap(([, folder = '', , imports = '']) =>
  /^[a-z]+\/$/.test(folder) ? [[folder.slice(0, -1), imports] as const] : [],
);

describe('the map of the sources', () => {
  it('has every wing and nothing else', () => {
    const folders = readdirSync(SOURCES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(WINGS.map(([wing]) => wing).sort()).toEqual(folders.map(({ name }) => name).sort());
  });

  it.each(WINGS)('says what %s may import: %s', (wing, imports) => {
    if (imports === 'all') return;
    const named = [...IMPORTS].filter(([file]) => wingOf(file) === wing).flatMap(([, paths]) => paths);
    const others = new Set(named.map(wingOf).filter((other) => other !== wing));
    const allowed = imports === 'nothing' ? [] : imports.split(', ');
    expect([...others].filter((other) => !allowed.includes(other))).toEqual([]);
  });

  it('names only files and folders that exist', () => {
    const words = [...MAP.matchAll(/`([\w.-]+\/[\w./-]*|[\w-]+\.ts)`|\]\(([\w./-]+)\)/g)].map(
      ([, code, link]) => code ?? link ?? '',
    );
    const all = [...IMPORTS.keys(), ...globSync('**/', { cwd: SOURCES })];
    const isThere = (word: string): boolean =>
      existsSync(join(SOURCES, word)) ||
      all.some((path) => `/${path}/`.includes(`/${word.replace(/\/$/, '')}/`));
    expect(words.length).toBeGreaterThan(50);
    expect(words.filter((word) => !isThere(word))).toEqual([]);
  });

  it('names only functions and tables that exist', () => {
    const names = [...MAP.matchAll(/`([a-z]+[A-Z]\w*|[A-Z]{4,})`/g)].map(([, name = '']) => name);
    const sources = [...IMPORTS.keys()].map(textOf).join('\n');
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(sources))).toEqual([]);
  });
});

describe('the main path', () => {
  const path = rowsBelow('The main path').map(([, , file = '']) => file);

  it('is at most 16 files', () => {
    expect(path.length).toBeGreaterThan(10);
    expect(path.length).toBeLessThanOrEqual(16);
  });

  it('has all imports between its files', () => {
    const reached = new Set<string>(['mirror/pass/pass.ts']);
    for (const file of reached)
      for (const next of IMPORTS.get(file) ?? []) if (path.includes(next)) reached.add(next);
    expect([...reached].sort()).toEqual([...path].sort());
  });
});

describe('the sources', () => {
  it('have no import cycle, not even of types', () => {
    const done = new Set<string>();
    const circles: string[] = [];
    const visit = (file: string, way: readonly string[]): void => {
      if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' -> '));
      if (way.includes(file) || done.has(file)) return;
      for (const next of IMPORTS.get(file) ?? []) visit(next, [...way, file]);
      done.add(file);
    };
    for (const file of IMPORTS.keys()) visit(file, []);
    expect(circles).toEqual([]);
  });

  it('have at most 16 files in a folder', () => {
    const folders = Map.groupBy(globSync('**/*.*', { cwd: SOURCES }), (file) => dirname(file));
    const full = [...folders].filter(([folder, files]) => folder !== 'manual' && files.length > 16);
    expect(full.map(([folder]) => folder)).toEqual([]);
  });
});
