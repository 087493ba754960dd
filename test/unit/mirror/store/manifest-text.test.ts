import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { treeFault } from '../../../../src/lib/paths/file-name.ts';
import type { Manifest } from '../../../../src/mirror/store/manifest.ts';
import { formatManifest, parseManifest } from '../../../../src/mirror/store/manifest-text.ts';
import { manifestFile, manifestWith, repository } from '../../../support/builders.ts';
import { manifests } from '../../../support/manifests.ts';

const UNSAID = { createdAt: null, action: null, parentId: null };
const WORKBOOK = { id: 'Accounting/a.xlsx', versionId: 'v2', author: 'Anna', message: 'm', ...UNSAID };
const FILE = { sizeBytes: 1, sha256: 'a'.repeat(64), mtimeMs: 1000, workbook: WORKBOOK };
const MANIFEST = manifestWith({
  repository: repository({ createdAt: null }),
  verifiedAtMs: 1000,
  publishedAtMs: 1000,
  files: [manifestFile('a.xlsx', FILE)],
});

/** The same with the optional facts of a service. */
function complete(createdAt: string | null, action: string | null, parentId: string | null): Manifest {
  return {
    ...MANIFEST,
    repository: { ...MANIFEST.repository, createdAt },
    files: MANIFEST.files.map((file) => ({ ...file, workbook: { ...WORKBOOK, action, parentId } })),
  };
}

function textOf(manifest: Manifest): string {
  return [...formatManifest(manifest)].join('');
}

function parse(text: string): Manifest | null {
  return parseManifest(Buffer.from(text)).manifest;
}

describe('a manifest', () => {
  it('has no unknown fields', () => {
    const text = textOf(complete('2020-01-01T00:00:00+00:00', 'modify', 'v1'));
    const less = text.replaceAll(/\n *"(?:compared_at|created_at|action|parent)": "[^"]*",/g, '');
    expect(parse(less)).toStrictEqual({ ...complete(null, null, null), comparedAtMs: 1000 });
  });

  it('reads back as it was written, for any content', () => {
    fc.assert(
      fc.property(manifests(), (manifest) => {
        expect(parse(textOf(manifest))).toStrictEqual(manifest);
      }),
    );
  });

  it('is JSON with sorted keys and paths, indented by one', () => {
    fc.assert(
      fc.property(manifests(), (manifest) => {
        const text = textOf({ ...manifest, files: manifest.files.toReversed() });
        expect(text).toBe(`${JSON.stringify(JSON.parse(text), sortKeys, 1)}\n`);
        expect(text).toBe(textOf(manifest));
      }),
    );
  });

  it('is written in pieces if it is long', () => {
    const facts = { sha256: 'b'.repeat(64), mode: 0o600 };
    const files = Array.from({ length: 5000 }, (_, index) =>
      manifestFile(`${String(index).padStart(5, '0')}.xlsx`, { ...facts, sizeBytes: index, mtimeMs: index }),
    );
    const pieces = [...formatManifest({ ...MANIFEST, files })];
    expect(pieces.length).toBeGreaterThan(2);
    expect(parse(pieces.join(''))).toStrictEqual({ ...MANIFEST, files });
  });

  it.each([
    '',
    '{',
    '[]',
    '{"format": 2}',
    textOf(MANIFEST).replace('"main"', '""'),
    textOf(MANIFEST).replace('"main"', `${'['.repeat(10_000)}${']'.repeat(10_000)}`),
  ])('is not accepted if it is malformed: %j', (text) => {
    expect(parse(text)).toBeNull();
  });

  it.each([
    ['../../esc/x', 'leads to another folder'],
    ['/etc/cron.d/x', 'has an absolute path'],
    ['x\u009b31m', 'has a control character in its name'],
  ])('is not accepted with a path that no archive may have: %j', (path, fault) => {
    expect(parse(textOf({ ...MANIFEST, files: [manifestFile(path, FILE)] }))).toBeNull();
    expect(treeFault([path])).toStrictEqual({ path, fault });
    const skipped = [{ path, reason: 'symbolic-link' as const }];
    expect(parse(textOf({ ...MANIFEST, skipped }))).toBeNull();
  });

  it.each([
    [['a', 'a'], 'occurs twice'],
    [['a', 'a!', 'a/b'], 'is a file and a folder at once'],
    [['a/b/c/d', 'a/b', 'a/b/c/e'], 'is a file and a folder at once'],
  ])('is not accepted with paths that no tree can have together: %j', (paths, fault) => {
    const files = paths.map((path) => manifestFile(path, FILE));
    expect(parse(textOf({ ...MANIFEST, files }))).toBeNull();
    expect(treeFault(paths)?.fault).toBe(fault);
  });

  it.each([
    ['"0644"', '"0648"'],
    ['"0644"', '"00644"'],
    [/"mtime": "[^"]*"/, '"mtime": "2025-02-29T00:00:00Z"'],
    [/"sha256": "a/, '"sha256": "A'],
    ['"version": "v2"', '"version": 2'],
    ['"size": 1', '"size": 1.5'],
    ['"size": 1', '"size": 9007199254740993'],
    ['"size": 1', '"size": -1'],
    [/"files": \[[^]*?\n \]/, '"files": {}'],
    ['"0644"', '"4755"'],
  ])('is not accepted if it has instead of %s: %s', (from, to) => {
    const text = textOf(MANIFEST);
    expect(text.replace(from, to)).not.toBe(text);
    expect(parse(text.replace(from, to))).toBeNull();
  });
});

function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
