import * as fc from 'fast-check';

import { nameFault, treeFault } from '../../src/lib/paths/file-name.ts';
import { byCodeUnits, type Manifest, type ManifestFile } from '../../src/mirror/store/manifest.ts';

/** Whole milliseconds of years with four digits. */
const timeMs = fc.integer({ min: 0, max: 253_402_300_799_999 });

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('"', '\\', '\n "files": []', '\u2028', '\ud800', '__proto__', 'é'),
);
const name = text.filter((each) => each !== '');
/** Possible paths in a tree, some of them in folders. */
const path = fc
  .array(fc.oneof(text, fc.constantFrom('a', 'b')), { minLength: 1, maxLength: 3 })
  .map((segments) => segments.join('/'))
  .filter((each) => nameFault(each) === null);
const textOrNull = fc.option(text);
const sizeBytes = fc.nat({ max: Number.MAX_SAFE_INTEGER });

function digits(length: number): fc.Arbitrary<string> {
  return fc.string({
    unit: fc.constantFrom(...Array.from({ length: 16 }, (_, digit) => digit.toString(16))),
    minLength: length,
    maxLength: length,
  });
}

/** Any file of a manifest. */
function manifestFiles(): fc.Arbitrary<ManifestFile> {
  const workbook = fc.record(
    {
      id: text,
      versionId: text,
      author: textOrNull,
      message: textOrNull,
      createdAt: textOrNull,
      action: textOrNull,
      parentId: textOrNull,
    },
    { noNullPrototype: true },
  );
  return fc.record(
    {
      path,
      sizeBytes,
      sha256: digits(64),
      mode: fc.nat({ max: 0o777 }),
      mtimeMs: fc.nat({ max: (2 ** 31 - 1) * 1000 }),
      crc32: fc.nat({ max: 0xffffffff }),
      workbook,
    },
    { requiredKeys: ['path', 'sizeBytes', 'sha256', 'mode', 'mtimeMs'], noNullPrototype: true },
  );
}

/** Any manifest, its files sorted. */
export function manifests(): fc.Arbitrary<Manifest> {
  const files = fc
    .uniqueArray(manifestFiles(), { selector: ({ path }) => path, maxLength: 8 })
    .filter((each) => treeFault(each.map(({ path }) => path)) === null)
    .map((each) => each.toSorted((a, b) => byCodeUnits(a.path, b.path)));
  const repository = fc.record(
    { id: name, name: text, fullName: name, url: textOrNull, createdAt: textOrNull },
    { noNullPrototype: true },
  );
  return fc.record(
    {
      repository,
      branch: name,
      verifiedAtMs: timeMs,
      comparedAtMs: timeMs,
      publishedAtMs: timeMs,
      restoredAtMs: fc.option(timeMs),
      fingerprint: textOrNull,
      borrowed: fc.array(text),
      settled: fc.boolean(),
      etag: textOrNull,
      archiveBytes: sizeBytes,
      skipped: fc.array(
        fc.record(
          {
            path,
            reason: fc.constantFrom('symbolic-link' as const, 'special-file' as const, 'submodule' as const),
          },
          { noNullPrototype: true },
        ),
      ),
      missing: fc.array(text, { minLength: 1 }),
      approval: fc.record(
        { approvedBy: text, approvedAtMs: timeMs, isByWord: fc.boolean() },
        { noNullPrototype: true },
      ),
      files,
    },
    {
      requiredKeys: [
        'repository',
        'branch',
        'verifiedAtMs',
        'comparedAtMs',
        'publishedAtMs',
        'restoredAtMs',
        'fingerprint',
        'borrowed',
        'settled',
        'etag',
        'archiveBytes',
        'skipped',
        'files',
      ],
      noNullPrototype: true,
    },
  );
}
