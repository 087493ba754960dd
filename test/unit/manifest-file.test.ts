import { describe, expect, it } from 'vitest';

import type { Manifest } from '../../src/model/manifest.ts';
import { formatManifest, parseManifest } from '../../src/store/manifest-file.ts';

const WORKBOOK = { id: 'Accounting/a.xlsx', versionId: 'v2', author: 'Anna', message: 'm', createdAt: null };
const MANIFEST: Manifest = {
  repository: { id: 'id-1', name: 'Accounting', fullName: 'Accounting', url: null },
  branch: 'main',
  verifiedAtMs: 1000,
  comparedAtMs: null,
  publishedAtMs: 1000,
  restoredAtMs: null,
  fingerprint: null,
  borrowed: [],
  settled: true,
  etag: null,
  archiveBytes: 0,
  skipped: [],
  files: [
    { path: 'a.xlsx', sizeBytes: 1, sha256: 'a'.repeat(64), mode: 0o644, mtimeMs: 1000, workbook: WORKBOOK },
  ],
};

/** The same with what later versions of this program ask the service for. */
function complete(createdAt: string | null, action: string | null, parentId: string | null): Manifest {
  return {
    ...MANIFEST,
    repository: { ...MANIFEST.repository, createdAt },
    files: MANIFEST.files.map((file) => ({ ...file, workbook: { ...WORKBOOK, action, parentId } })),
  };
}

describe('a manifest', () => {
  it.each([
    ['of a version that did not ask for everything', MANIFEST],
    ['with all that the service says', complete('2020-01-01T00:00:00+00:00', 'modify', 'v1')],
    ['of a service that says little', complete(null, null, null)],
  ])('%s is read as it was written', (_what, manifest) => {
    expect(parseManifest(formatManifest(manifest))).toStrictEqual(manifest);
  });

  it.each(['', '{', '[]', '{"format": 2}', formatManifest(MANIFEST).replace('"main"', '""')])(
    'is none that cannot be understood: %j',
    (text) => {
      expect(parseManifest(text)).toBeNull();
    },
  );
});
